"""ClusterReport: asks the controller for the states of all brokers, the moves under way, and the last plan.

Commands and HTTP send it to any broker, which forwards it to the controller.  Amounts are bytes; an unknown one is -1.
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, INT16, INT32, INT64, STRING, array
from tidemill.wire.schema import Api, Message, field

UNKNOWN = -1


class Request(Message):
    is_trial: bool = field(BOOL, default=False)
    """Also plan anew, as if tidemill.rebalance.enable were true, and report that plan instead of the last one."""


class Response(Message):
    class Broker(Message):
        broker_id: int = field(INT32)
        rack: str | None = field(STRING)
        presence: str = field(STRING)  # active, silent or gone
        drain: str = field(STRING)  # none, leaders or all
        is_live: bool = field(BOOL)  # the controller hears it
        is_ready: bool = field(BOOL)  # it serves clients, and may lead
        heard_by: int = field(INT32)  # live brokers that hear it, the controller included
        silent_ms: int = field(INT64)
        live_ms: int = field(INT64)
        disk_total: int = field(INT64)
        disk_used: int = field(INT64)
        cpu: int = field(INT32)  # per mille of a core
        replicas: int = field(INT32)  # planned
        leaders: int = field(INT32)  # shards whose preferred leader it is
        bytes: int = field(INT64)  # of its planned replicas, as far as their sizes are known
        not_in_sync: int = field(INT32)  # planned replicas that lack what is committed, and those in `untold`
        untold: int = field(INT32, tag=0, default=0)  # planned replicas of which no leader has told the controller yet
        leaving: int = field(INT32, tag=1, default=0)  # replicas planned elsewhere, of which it may still have the vote

    class Move(Message):
        """A shard whose voters are on their way to the planned replicas."""

        shard_id: int = field(INT64)
        reason: str = field(STRING)
        voters: Sequence[int] = field(array(INT32))  # in force
        replicas: Sequence[int] = field(array(INT32))  # planned, preferred leader first
        previous: Sequence[int] = field(array(INT32))  # to which CANCEL returns; none if there is nothing to cancel
        size: int = field(INT64)  # of one replica
        remaining: int = field(INT64)  # to be copied still, to all new replicas together

    class Step(Message):
        at_ms: int = field(INT64)  # wall clock
        shard_id: int = field(INT64)
        reason: str = field(STRING)
        replicas: Sequence[int] = field(array(INT32))
        size: int = field(INT64)  # to copy
        sentence: str = field(STRING)
        problem: str | None = field(STRING, default=None)  # why the step was dropped

    class Note(Message):
        """A change of presence, with its sentence."""

        at_ms: int = field(INT64)
        broker_id: int = field(INT32)
        sentence: str = field(STRING)

    class Refusal(Message):
        what: str = field(STRING)  # such as "shard 41", or the reason that waits
        sentence: str = field(STRING)

    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    status: str = field(STRING, default="off")  # idle, working, stalled or off
    why: str | None = field(STRING, default=None)  # why it is off or stalled
    planned_at_ms: int = field(INT64, default=UNKNOWN)  # wall clock
    steps: Sequence[Step] = field(array(Step), default=())  # of the plan
    refusals: Sequence[Refusal] = field(array(Refusal), default=())
    recent: Sequence[Step] = field(array(Step), default=())  # steps that were planned, newest last
    notes: Sequence[Note] = field(array(Note), default=())  # newest last
    brokers: Sequence[Broker] = field(array(Broker), default=())
    moves: Sequence[Move] = field(array(Move), default=())
    moves_count: int = field(INT32, default=0)  # all, of which `moves` has some
    untold_count: int = field(INT32, tag=0, default=0)  # shards whose voters no leader has told yet
    untold: Sequence[int] = field(array(INT64), tag=1, default=())  # these shards, or some of them


API = Api(key=10_022, versions=range(1), flexible_from=0, request=Request, response=Response)
