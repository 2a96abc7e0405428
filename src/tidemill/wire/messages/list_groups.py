"""ListGroups: key 16, v0-5, flexible from v3.

Returns the groups that this broker coordinates.

v1  response: throttle_time_ms
v3  flexible
v4  request: states_filter; response: group_state; filtering by state (KIP-518)
v5  request: types_filter; response: group_type; filtering by type (KIP-848)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    states_filter: Sequence[str] = field(array(STRING), since=4, default=())
    types_filter: Sequence[str] = field(array(STRING), since=5, default=())


class Response(Message):
    class Group(Message):
        group_id: str = field(STRING)
        protocol_type: str = field(STRING)
        group_state: str = field(STRING, since=4, default="")
        group_type: str = field(STRING, since=5, default="")

    throttle_time_ms: int = field(INT32, since=1, default=0)
    error_code: int = field(INT16)
    groups: Sequence[Group] = field(array(Group))


API = Api(key=16, versions=range(6), flexible_from=3, request=Request, response=Response)
