"""LeaveGroup: key 13, v0-5, flexible from v4.

Members leave a classic group.

v1  response: throttle_time_ms
v3  request: members in place of member_id; response: members; many members at once (KIP-345)
v4  flexible
v5  request: reason; why a member leaves (KIP-800)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Member(Message):
        member_id: str = field(STRING)
        group_instance_id: str | None = field(STRING, default=None)
        reason: str | None = field(STRING, since=5, default=None)

    group_id: str = field(STRING)
    member_id: str = field(STRING, until=3, default="")
    members: Sequence[Member] = field(array(Member), since=3, default=())


class Response(Message):
    class Member(Message):
        member_id: str = field(STRING)
        group_instance_id: str | None = field(STRING, default=None)
        error_code: int = field(INT16)

    throttle_time_ms: int = field(INT32, since=1, default=0)
    error_code: int = field(INT16)
    members: Sequence[Member] = field(array(Member), since=3, default=())


API = Api(key=13, versions=range(6), flexible_from=4, request=Request, response=Response)
