"""Presence: decides when a broker is silent, gone, or back.

    ACTIVE ─ silent 60 s ─▶ SILENT ─ 5 min ─▶ GONE
      ▲                        │                │
      └────── live 30 s ───────┴────────────────┘

A broker is silent if neither the controller nor any other live broker hears it: a controller with a bad network must
not re-place a healthy cluster.  SILENT is recorded, so that the next controller does not begin to count at zero.

If many brokers are silent at once, none becomes GONE by itself: a switch or a power supply has failed, not their disks,
and copying everything to the rest would fill it up.  An operator decides (`cluster replace`).
"""

from itertools import islice
from typing import Final, NamedTuple

from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Presence
from tidemill.rebalance.broker_set import BrokerSet, silence_text
from tidemill.rebalance.policy import Policy
from tidemill.rebalance.sentences import brokers_text, duration
from tidemill.rebalance.shard_index import ShardIndex
from tidemill.rebalance.view import BrokerView, View

LOOKED_AT_MAX: Final = 100  # replicas of a broker that is GONE, so that this is short; with more, it counts as lost


class PresenceChange(NamedTuple):
    """A BrokerStateRecord to write."""

    broker_id: BrokerId
    presence: Presence
    sentence: str


class PresenceDecision(NamedTuple):
    changes: tuple[PresenceChange, ...]
    stalled: str | None  # why brokers that are due to be GONE are not; None if none is held back


def decide_presence(image: ClusterImage, view: View, policy: Policy, index: ShardIndex) -> PresenceDecision:
    """Return the changes of presence that are due now."""
    live_count = sum(broker.is_live for broker in view.brokers.values())
    stalled = stall(image, view, policy, index)
    changes = []
    for broker_id in sorted(view.brokers):
        broker = view.brokers[broker_id]
        if broker_id not in image.brokers:
            continue
        after = _next(broker, policy, is_stalled=stalled is not None)
        if after is Presence.ACTIVE:
            sentence = f"broker {broker_id} is back: live for {duration(broker.live_ms)} without a gap"
            changes.append(PresenceChange(broker_id, after, sentence))
        elif after is not None:
            changes.append(PresenceChange(broker_id, after, silence_text(broker_id, broker, live_count)))
    return PresenceDecision(tuple(changes), stalled)


def stall(image: ClusterImage, view: View, policy: Policy, index: ShardIndex) -> str | None:
    """Return why brokers that are due to be GONE stay SILENT; None if none is due, or none is held back."""
    known = {broker_id: broker for broker_id, broker in sorted(view.brokers.items()) if broker_id in image.brokers}
    due = [broker_id for broker_id, broker in known.items() if _is_due(broker, policy)]
    if not due:
        return None
    lost = [broker_id for broker_id, broker in known.items() if _is_lost(broker_id, broker, image, view, index)]
    if len(lost) < 2:
        return None
    racks = {known[broker_id].rack for broker_id in lost} - {None}
    silent_racks = sorted(
        str(rack)
        for rack in racks
        if len(members := [broker_id for broker_id, broker in known.items() if broker.rack == rack]) > 1
        and all(member in lost for member in members)
    )
    if len(lost) * 100 > policy.bulk_percent * len(known):
        why = f"{len(lost)} of {len(known)} brokers are silent, more than {policy.bulk_percent} %"
    elif silent_racks:
        why = f"all brokers of rack {silent_racks[0]} are silent"
    else:
        return None
    return f"{brokers_text(due)} may be gone, but {why}; bring them back, or run `tidemill cluster replace`"


def _next(broker: BrokerView, policy: Policy, *, is_stalled: bool) -> Presence | None:
    """Return the next presence of a broker; None if it stays as it is."""
    if broker.presence is Presence.ACTIVE:
        return Presence.SILENT if _is_silent(broker) and broker.silent_ms >= policy.silent_after_ms else None
    if broker.is_live and broker.live_ms >= policy.active_after_ms:
        return Presence.ACTIVE
    return Presence.GONE if _is_due(broker, policy) and not is_stalled else None


def _is_silent(broker: BrokerView) -> bool:
    return not broker.is_live and broker.heard_by == 0


def _is_due(broker: BrokerView, policy: Policy) -> bool:
    is_late = broker.silent_ms >= policy.gone_after_ms
    return broker.presence is Presence.SILENT and _is_silent(broker) and is_late


def _is_lost(broker_id: BrokerId, broker: BrokerView, image: ClusterImage, view: View, index: ShardIndex) -> bool:
    """
    Return whether a broker is away with data that is to be copied.  One whose replicas have all been replaced no longer
    counts, nor one that has only replicas of shards without a majority, which stay until it is back.
    """
    if not _is_silent(broker) or broker.presence is Presence.ACTIVE:
        return False
    return broker.presence is Presence.SILENT or _has_replaceable(broker_id, image, view, index)


def _has_replaceable(broker_id: BrokerId, image: ClusterImage, view: View, index: ShardIndex) -> bool:
    """Return whether a replica of a broker that is GONE may still be replaced, as far as some of them show."""
    carried, brokers = index.carried(broker_id), BrokerSet(image, view)
    for shard_id in islice(carried, LOOKED_AT_MAX):
        shard, figures = image.shards.get(shard_id), view.shards.get(shard_id)
        if figures is not None and figures.membership is not None:
            problem = brokers.majority_problem(figures)
        else:
            problem = None if shard is None else brokers.planned_majority_problem(shard)
        if problem is None:
            return True
    return len(carried) > LOOKED_AT_MAX
