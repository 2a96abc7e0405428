"""
ApiVersions (key 18): v0-4

Returns the APIs and versions that this broker offers, which are exactly those that it implements.

v1  throttle_time_ms
v3  flexible; client software name and version (KIP-511); features
v4  features may have the minimum version 0

The feature share.version tells clients that share groups may be used (KIP-932).
"""

import re
from typing import Final

from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.wire.api import advertised
from tidemill.wire.messages.api_versions import Request, Response

SHARE_VERSION: Final = "share.version"
SUPPORTED: Final = (Response.SupportedFeature(name=SHARE_VERSION, min_version=0, max_version=1),)
FINALIZED: Final = (Response.FinalizedFeature(name=SHARE_VERSION, max_version_level=1, min_version_level=1),)
MINIMUM_ZERO_SINCE: Final = 4  # before, clients refuse a feature with the minimum version 0 (KAFKA-17011)
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: Request, context: RequestContext) -> Response:
    if context.version >= 3 and not _is_legal(request):
        return Response(error_code=errors.INVALID_REQUEST, api_keys=())
    return Response(
        error_code=errors.NONE,
        api_keys=advertised(context.connection.offered),
        supported_features=SUPPORTED if context.version >= MINIMUM_ZERO_SINCE else (),
        finalized_features_epoch=0,
        finalized_features=FINALIZED,
    )


def _is_legal(request: Request) -> bool:
    """
    Return whether the client's software name and version match the pattern in KIP-511, so that they are safe to show in
    metrics.
    """
    return all(_SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version))
