"""The planner: decides which replicas move where, and why.  It is the entry point of this folder.

    image, view ─▶ decide ─▶ Plan: steps, which the host writes as ReplicasRecords; refusals; status

A pass knows nothing of the passes before it: what they planned is in the image, and what of it has not ended yet shows
in the members in force.  So a step is a goal and not an operation, a new controller goes on where the last one stopped,
and a move is cancelled by another goal.

Reasons are considered in the order of `Reason`, each with the accounts after all steps for the reasons before it.  A
shard has at most one step at a time.
"""

from tidemill.metadata.image import ClusterImage
from tidemill.rebalance.balance import balance_bytes, balance_counts
from tidemill.rebalance.broker_set import BrokerSet
from tidemill.rebalance.draft import begin_draft
from tidemill.rebalance.evacuation import empty_drained, relieve_disks
from tidemill.rebalance.leader_load import balance_leaders
from tidemill.rebalance.plan import BEGINS, Plan, Refusal, Status
from tidemill.rebalance.policy import Policy
from tidemill.rebalance.presence import stall
from tidemill.rebalance.rack_repair import repair_racks
from tidemill.rebalance.repairs import replace_lost
from tidemill.rebalance.sentences import duration
from tidemill.rebalance.shard_index import ShardIndex
from tidemill.rebalance.slices import Slices, Work
from tidemill.rebalance.view import View


def decide(image: ClusterImage, view: View, policy: Policy, now_ms: int, index: ShardIndex) -> Slices[Plan]:
    """Return the plan for now.

    `index` is the controller's own, which it keeps from pass to pass; only one pass runs at a time.  The times in
    `view`, `index` and `now_ms` are of one clock of the controller.
    """
    brokers = BrokerSet(image, view)
    yield
    yield from index.catch_up(image, view, brokers.racks, Work(), now_ms)
    if not policy.is_enabled:
        return Plan((), (), Status.OFF)
    waited_ms = now_ms - index.began_at_ms
    if waited_ms < policy.figures_after_ms:
        began, wait = duration(waited_ms), duration(policy.figures_after_ms)
        sentence = f"the controller began {began} ago, and waits {wait} for the figures of all shards"
        return Plan((), (Refusal(BEGINS, sentence),), Status.IDLE)
    draft = yield from begin_draft(image, view, policy, now_ms, index, brokers)
    yield
    stalled = stall(image, view, policy, index)
    for reason in (replace_lost, relieve_disks, empty_drained):
        yield from reason(draft)
        yield
    if stalled is None:
        for reason in (repair_racks, balance_leaders, balance_counts, balance_bytes):
            yield from reason(draft)
            yield
        status = Status.WORKING if draft.has_steps or index.under_way else Status.IDLE
        return draft.plan(status)
    plan = draft.plan(Status.STALLED)
    return plan._replace(refusals=(Refusal("cluster", stalled), *plan.refusals))
