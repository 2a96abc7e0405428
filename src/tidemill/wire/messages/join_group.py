"""JoinGroup: key 11, v0-9, flexible from v6.

A member joins the next generation of a classic group and lists the protocols it supports.

v1  request: rebalance_timeout_ms
v2  response: throttle_time_ms
v4  MEMBER_ID_REQUIRED: a new member gets its id first, then joins (KIP-394)
v5  request and response: group_instance_id; static members (KIP-345)
v6  flexible
v7  response: protocol_type; the chosen protocol's type (KIP-559)
v8  request: reason; why the member joins (KIP-800)
v9  response: skip_assignment; a static leader that returns skips the assignment (KIP-814)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, BYTES, INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Protocol(Message):
        name: str = field(STRING)
        metadata: bytes = field(BYTES)

    group_id: str = field(STRING)
    session_timeout_ms: int = field(INT32)
    rebalance_timeout_ms: int = field(INT32, since=1, default=-1)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, default=None)
    protocol_type: str = field(STRING)
    protocols: Sequence[Protocol] = field(array(Protocol))
    reason: str | None = field(STRING, since=8, default=None)


class Response(Message):
    class Member(Message):
        member_id: str = field(STRING)
        group_instance_id: str | None = field(STRING, since=5, default=None)
        metadata: bytes = field(BYTES)

    throttle_time_ms: int = field(INT32, since=2, default=0)
    error_code: int = field(INT16)
    generation_id: int = field(INT32, default=-1)
    protocol_type: str | None = field(STRING, since=7, default=None)
    protocol_name: str | None = field(STRING, nullable_since=7, default=None)
    leader: str = field(STRING)
    skip_assignment: bool = field(BOOL, since=9, default=False)
    member_id: str = field(STRING)
    members: Sequence[Member] = field(array(Member))


API = Api(key=11, versions=range(10), flexible_from=6, request=Request, response=Response)
