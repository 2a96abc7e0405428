"""
ApiVersions (key 18): v0-4

Returns the APIs and versions that this broker offers, which are exactly those that it implements.

v1  throttle_time_ms
v3  flexible; client software name and version (KIP-511); features
v4  features may have the minimum version 0
"""

import re
from typing import Final

from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.wire.api import advertised
from tidemill.wire.messages.api_versions import Request, Response

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: Request, context: RequestContext) -> Response:
    if context.version >= 3 and not _is_legal(request):
        return Response(error_code=errors.INVALID_REQUEST, api_keys=())
    return Response(error_code=errors.NONE, api_keys=advertised(context.connection.offered))


def _is_legal(request: Request) -> bool:
    """
    Return whether the client's software name and version match the pattern in KIP-511, so that they are safe to show in
    metrics.
    """
    return all(_SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version))
