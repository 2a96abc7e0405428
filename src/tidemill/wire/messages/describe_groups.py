"""DescribeGroups: key 15, v0-6, flexible from v5.

Returns classic groups with their members.

v1  response: throttle_time_ms
v3  request: include_authorized_operations; response: authorized_operations; authorized operations (KIP-430)
v4  response: group_instance_id; static members (KIP-345)
v5  flexible
v6  response: error_message; GROUP_ID_NOT_FOUND instead of a group in state Dead (KIP-1043)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, BYTES, INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    groups: Sequence[str] = field(array(STRING))
    include_authorized_operations: bool = field(BOOL, since=3, default=False)


class Response(Message):
    class Group(Message):
        class Member(Message):
            member_id: str = field(STRING)
            group_instance_id: str | None = field(STRING, since=4, default=None)
            client_id: str = field(STRING)
            client_host: str = field(STRING)
            member_metadata: bytes = field(BYTES)
            member_assignment: bytes = field(BYTES)

        error_code: int = field(INT16)
        error_message: str | None = field(STRING, since=6, default=None)
        group_id: str = field(STRING)
        group_state: str = field(STRING)
        protocol_type: str = field(STRING)
        protocol_data: str = field(STRING)
        members: Sequence[Member] = field(array(Member))
        authorized_operations: int = field(INT32, since=3, default=-2147483648)

    throttle_time_ms: int = field(INT32, since=1, default=0)
    groups: Sequence[Group] = field(array(Group))


API = Api(key=15, versions=range(7), flexible_from=5, request=Request, response=Response)
