"""DISK and DRAIN: move replicas away from disks that are too full, and from brokers that an operator empties."""

from typing import Final

from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Presence
from tidemill.model.data_size import size_text
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.rebalance.draft import Draft, Outcome, replica_on
from tidemill.rebalance.largest import keep_largest
from tidemill.rebalance.sentences import percent
from tidemill.rebalance.slices import Slices

CANDIDATES_MAX: Final = 64  # replicas of one disk that are tried in one pass, so that a pass is short
REFUSED_MAX: Final = 8  # of them: where so many have no place, the others will hardly have one


def relieve_disks(draft: Draft) -> Slices[None]:
    """Move the replica that suffices from each disk that is too full; the smallest of those that suffice alone.

    If none suffices alone, the largest one goes first, so that the fewest shards move.
    """
    for broker_id, broker in draft.brokers.known.items():
        used, total = draft.accounts.disk_after(broker_id, broker), broker.disk_total
        if used is None or not total or not broker.is_live or broker_id in draft.brokers.drained:
            continue  # what is known of a silent broker's disk is old, and a drained one is emptied anyway
        excess = used - total * draft.policy.disk_percent_max // 100
        if excess <= 0:
            continue
        limit = draft.policy.disk_percent_max
        why = f"the disk of broker {broker_id} is {percent(used, total)} full, more than {limit} %"
        candidates = yield from _candidates(draft, broker_id, excess)
        if not candidates:
            draft.refuse_all(Reason.DISK, f"broker {broker_id}", f"{why}; no replica on it can move now")
        refused = 0
        while excess > 0 and candidates and refused < REFUSED_MAX:
            sufficing = [(size, shard_id) for size, shard_id in candidates if size >= excess]
            size, number = min(sufficing) if sufficing else max(candidates)
            candidates.remove((size, number))
            shard = draft.image.shards[ShardId(number)]
            source = replica_on(shard, broker_id)
            outcome = draft.move(shard, source, Reason.DISK, f"{why}, by {size_text(excess)}")
            excess -= size if outcome is Outcome.PLANNED else 0
            refused += outcome is Outcome.REFUSED
            yield


def empty_drained(draft: Draft) -> Slices[None]:
    """Move every replica from the brokers that are drained.  A broker that is GONE is emptied by REPLACE."""
    for broker_id in draft.brokers.drained:
        if draft.brokers.known[broker_id].presence is Presence.GONE:
            continue
        for shard_id in draft.index.carried(broker_id):
            if not draft.is_busy(shard_id):
                shard = draft.image.shards[shard_id]
                draft.move(shard, replica_on(shard, broker_id), Reason.DRAIN, f"broker {broker_id} is drained")
            if draft.work.fills_slice(4):
                yield


def _candidates(draft: Draft, broker_id: BrokerId, excess: int) -> Slices[list[tuple[int, int]]]:
    """Return the largest replicas on a disk and the smallest of those that suffice, each with its size."""
    largest: list[tuple[int, int]] = []
    smallest: list[tuple[int, int]] = []  # with negative sizes, because a heap has its smallest item first
    for shard_id in draft.index.carried(broker_id):
        figures = draft.view.shards.get(shard_id)
        if figures is not None and figures.size > 0 and shard_id != METADATA_SHARD and not draft.is_busy(shard_id):
            keep_largest(largest, (figures.size, shard_id), CANDIDATES_MAX)
            if figures.size >= excess:
                keep_largest(smallest, (-figures.size, shard_id), CANDIDATES_MAX)
        if draft.work.fills_slice():
            yield
    return [*dict.fromkeys([*largest, *((-size, shard_id) for size, shard_id in smallest)])]
