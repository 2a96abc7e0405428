"""View: what the controller knows now about brokers and shards, beside the image.

The host fills it from heartbeats, LOAD sections and `BrokerStateRecord`s.  It changes the mappings only between two
passes of the planner, and tells `ShardIndex.changed` of every shard whose figures it has replaced.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.shard import ShardId
from tidemill.raft.voters import Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """A broker that is in the image.  A figure that was never reported is None, and refuses what needs it."""

    key: ReplicaKey
    rack: str | None = None
    presence: Presence = Presence.ACTIVE  # of this directory: a broker with a new directory begins as ACTIVE
    drain: Drain = Drain.NONE
    is_live: bool = True  # the controller hears it
    is_ready: bool = True  # it serves clients
    silent_ms: int = 0  # how long it was not live without a gap (`rebalance/silence`)
    live_ms: int = 0  # how long it has been live without a gap
    heard_by: int = 0  # how many live brokers hear it, the controller included
    disk_total: int | None = None  # bytes
    disk_used: int | None = None  # bytes, of everything on that disk
    cpu: int | None = None  # per mille of a core
    figures_at_ms: int = 0  # when disk and CPU were measured


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardView:
    """The last report of a shard's leader.  It stays in the view while the shard sleeps or has no leader."""

    size: int  # bytes of one replica
    bytes_in: int = 0  # per second, that are written to it
    cpu: int = 0  # per mille of a core that its leader spends on it
    membership: Membership | None  # in force; None if no leader has told it yet
    in_sync: frozenset[BrokerId] = frozenset()  # voters that have what is committed, including the leader
    behind: Mapping[BrokerId, int] = field(default_factory=lambda: MappingProxyType({}))  # bytes that a member lacks
    leader: BrokerId | None = None  # confirmed now
    figures_at_ms: int = 0  # when the rate and the CPU were measured


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that is known.  A shard or a broker may be missing: that refuses a step, and never counts as zero."""

    brokers: Mapping[BrokerId, BrokerView]
    shards: Mapping[ShardId, ShardView]


def remaining(figures: ShardView, newcomer: ReplicaKey) -> int:
    """Return how many bytes of a shard a newcomer lacks; all of them if its leader has not told."""
    return min(figures.size, figures.behind.get(newcomer.broker_id, figures.size))


def missing_bytes(figures: ShardView, replicas: Iterable[ReplicaKey]) -> int:
    """Return how many bytes those of `replicas` lack together that do not vote yet."""
    assert figures.membership is not None, "the members are known"
    voters = figures.membership.voters
    return sum(remaining(figures, replica) for replica in replicas if replica not in voters)
