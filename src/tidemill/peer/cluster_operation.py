"""ClusterOperation: an operator's command to the controller: to drain, replace or remove a broker, or to move a shard.

Commands and HTTP send it to any broker, which forwards it to the controller.  The answer comes when the command is
committed; what follows from it, such as the moves of a drain, shows in `cluster_report`.
"""

from collections.abc import Sequence
from enum import IntEnum

from tidemill.wire.primitives import BOOL, INT8, INT16, INT32, INT64, STRING, array
from tidemill.wire.schema import Api, Message, field

NO_ID = -1


class Operation(IntEnum):
    """What to do, and which fields of the request say with what."""

    DRAIN_LEADERS = 0  # broker_id: it leads nothing while it is drained
    DRAIN_ALL = 1  # broker_id: it is emptied.  Refused if a shard has no place elsewhere, unless is_forced
    UNDRAIN = 2  # broker_id
    REPLACE = 3  # brokers, or none for all that are SILENT: their replicas are placed elsewhere at once
    MAY_STOP = 4  # broker_id: may it stop now?  Changes nothing; it may if there is no finding
    MOVE = 5  # shard_id, brokers: the replicas that the shard is to have, the preferred leader first
    CANCEL = 6  # shard_id: it gets the replicas back that it had before the move that is under way
    TRANSFER = 7  # shard_id, broker_id: the broker leads the shard from now on; the preferred leader stays
    REMOVE = 8  # broker_id: it is no broker of the cluster any more.  Refused while it is live or carries replicas


class Request(Message):
    operation: int = field(INT8)
    broker_id: int = field(INT32, default=NO_ID)
    shard_id: int = field(INT64, default=NO_ID)
    brokers: Sequence[int] = field(array(INT32), default=())
    is_forced: bool = field(BOOL, default=False)
    is_trial: bool = field(BOOL, default=False)  # check, and change nothing


class Response(Message):
    class Finding(Message):
        """A fact that an operator should know: why something is refused, or what follows from it."""

        kind: str = field(STRING)  # for a drain: replicas, disk, figures or rack; rack is a warning
        shard_id: int = field(INT64, default=NO_ID)
        broker_id: int = field(INT32, default=NO_ID)
        sentence: str = field(STRING)

    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    findings: Sequence[Finding] = field(array(Finding), default=())


API = Api(key=10_021, versions=range(1), flexible_from=0, request=Request, response=Response)
