"""Heartbeat: key 12, v0-4, flexible from v4.

A member of a classic group reports that it is alive; the response tells it whether to rejoin.

v1  response: throttle_time_ms
v3  request: group_instance_id; static members (KIP-345)
v4  flexible
"""

from tidemill.wire.primitives import INT16, INT32, STRING
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, default=None)


class Response(Message):
    throttle_time_ms: int = field(INT32, since=1, default=0)
    error_code: int = field(INT16)


API = Api(key=12, versions=range(5), flexible_from=4, request=Request, response=Response)
