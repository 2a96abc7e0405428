"""Plan: what the planner wants changed now, what it refuses, and why."""

from enum import StrEnum
from typing import Final, NamedTuple

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId

BEGINS: Final = "controller"  # the subject of a refusal while a new controller waits for figures: nothing is wrong


class Status(StrEnum):
    IDLE = "idle"  # nothing to do, or nothing that can be done
    WORKING = "working"  # steps are planned or under way
    STALLED = "stalled"  # so many brokers are silent that an operator has to decide: `cluster replace`
    OFF = "off"  # tidemill.rebalance.enable=false


class Step(NamedTuple):
    """A goal for one shard: a ReplicasRecord, towards which the shard's leader changes its members one at a time."""

    shard_id: ShardId
    replicas: tuple[ReplicaKey, ...]  # all of them, the preferred leader first
    reason: Reason
    size: int  # bytes to copy; 0 if only the order changes
    sentence: str


class Refusal(NamedTuple):
    """Something that should be done and cannot be done now."""

    what: str  # "shard 41", or the reason that waits, such as "count"
    sentence: str
    is_wish: bool = False  # only balance asks for it, and no operator has to act


class Plan(NamedTuple):
    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...]
    status: Status
