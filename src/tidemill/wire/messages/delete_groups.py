"""DeleteGroups: key 42, v0-2, flexible from v2.

Deletes empty groups.

v2  flexible
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    groups_names: Sequence[str] = field(array(STRING))


class Response(Message):
    class Group(Message):
        group_id: str = field(STRING)
        error_code: int = field(INT16)

    throttle_time_ms: int = field(INT32, default=0)
    results: Sequence[Group] = field(array(Group))


API = Api(key=42, versions=range(3), flexible_from=2, request=Request, response=Response)
