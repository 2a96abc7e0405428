"""SyncGroup: key 14, v0-5, flexible from v4.

The leader of a classic group sends the assignments of all members; every member receives its own.

v1  response: throttle_time_ms
v3  request: group_instance_id; static members (KIP-345)
v4  flexible
v5  request and response: protocol_type, protocol_name; the chosen protocol is checked (KIP-559)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BYTES, INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Assignment(Message):
        member_id: str = field(STRING)
        assignment: bytes = field(BYTES)

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, default=None)
    protocol_type: str | None = field(STRING, since=5, default=None)
    protocol_name: str | None = field(STRING, since=5, default=None)
    assignments: Sequence[Assignment] = field(array(Assignment))


class Response(Message):
    throttle_time_ms: int = field(INT32, since=1, default=0)
    error_code: int = field(INT16)
    protocol_type: str | None = field(STRING, since=5, default=None)
    protocol_name: str | None = field(STRING, since=5, default=None)
    assignment: bytes = field(BYTES)


API = Api(key=14, versions=range(6), flexible_from=4, request=Request, response=Response)
