"""
TransferLeadership: the controller asks a leader to transfer the leadership of shards.  The leader responds immediately.

`refused` holds the shards that cannot be transferred, because the receiver does not lead them, or the target is not
alive or lags too far behind.  The leader tables show when the other transfers are complete.
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, INT64, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Move(Message):
        shard_id: int = field(INT64)
        to: int = field(INT32)  # the broker id of the target

    moves: Sequence[Move] = field(array(Move))


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    refused: Sequence[int] = field(array(INT64), default=())  # the shards that are not transferred


API = Api(key=10_004, versions=range(1), flexible_from=0, request=Request, response=Response)
