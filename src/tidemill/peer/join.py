"""Join: a broker without a cluster requests admission from the controller.

A repeated request from the same directory gets the same response.

DUPLICATE_BROKER_REGISTRATION: the requested id belongs to a live broker with another directory.  If the request says
that its directory has already been admitted, the other broker need not be alive.
UNSUPPORTED_VERSION: the cluster is at a feature level that the sender does not support.
BROKER_ID_NOT_REGISTERED: the directory claims to have been admitted, but its id is unknown.
NOT_CONTROLLER: retry, possibly on another broker.
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, INT16, INT32, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    directory_id: bytes = field(UUID)
    broker_id: int = field(INT32, default=-1)  # the requested id; -1: the controller assigns one
    was_admitted: bool = field(BOOL, tag=0, default=False)  # the directory claims to have this id already
    level: int = field(INT16, tag=1, default=1)  # the highest feature level that the sender supports


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    cluster_id: str = field(STRING, default="")
    broker_id: int = field(INT32, default=-1)
    peers: Sequence[str] = field(array(STRING), tag=0, default=())  # host:port of each broker's peer listener
    # The same of the brokers that the answering brokers hear, also with an error: where they are reached now.
    live_peers: Sequence[str] = field(array(STRING), tag=1, default=())


API = Api(key=10_000, versions=range(1), flexible_from=0, request=Request, response=Response)
