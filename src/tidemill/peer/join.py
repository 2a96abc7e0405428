"""Join: a broker without a cluster asks to be one of this one's.  Answered by the controller.

The same directory that asks again is answered the same.  Errors: DUPLICATE_BROKER_REGISTRATION when the wished id is
that of a live broker with another directory; for who was admitted before, when another directory has it, live or not,
or BROKER_ID_NOT_REGISTERED when nobody has.  NOT_CONTROLLER: ask again, perhaps somebody else.
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, INT16, INT32, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    directory_id: bytes = field(UUID)
    broker_id: int = field(INT32, default=-1)  # that it wishes to have; -1: any
    was_admitted: bool = field(BOOL, tag=0, default=False)  # under that number; it asks whether it is so still


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    cluster_id: str = field(STRING, default="")
    broker_id: int = field(INT32, default=-1)
    peers: Sequence[str] = field(array(STRING), tag=0, default=())  # host:port of each broker's peer listener


API = Api(key=10_000, versions=range(1), flexible_from=0, request=Request, response=Response)
