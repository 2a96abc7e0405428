"""Register: a broker of the cluster registers its endpoints and its newest feature level with the controller.

DUPLICATE_BROKER_REGISTRATION: the broker id belongs to another directory.
UNSUPPORTED_VERSION: the cluster is at a feature level that the broker does not support.
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, INT64, STRING, UINT16, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Endpoint(Message):
        name: str = field(STRING)
        host: str = field(STRING)
        port: int = field(UINT16)
        security: str = field(STRING)

    broker_id: int = field(INT32)
    directory_id: bytes = field(UUID)
    endpoints: Sequence[Endpoint] = field(array(Endpoint))
    rack: str | None = field(STRING, default=None)
    level: int = field(INT16, tag=0, default=1)  # the highest feature level that the sender supports


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    image_offset: int = field(INT64, tag=0, default=0)  # metadata log offset; the response reflects the log before it


API = Api(key=10_001, versions=range(1), flexible_from=0, request=Request, response=Response)
