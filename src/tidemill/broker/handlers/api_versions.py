"""
ApiVersions (key 18): v0-4

Returns the APIs and versions that this broker offers, which are exactly those that it implements.

v1  throttle_time_ms
v3  flexible; client software name and version (KIP-511); features
v4  features may have the minimum version 0

The feature share.version tells clients that share groups may be used (KIP-932).  The feature tidemill.level is the
feature level of the cluster (`metadata/feature_levels`), and the levels that this broker supports.
"""

import re
from typing import Final

from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.feature_levels import FEATURE_NAME, OLDEST
from tidemill.model import errors
from tidemill.wire.api import advertised
from tidemill.wire.messages.api_versions import Request, Response

SHARE_VERSION: Final = "share.version"
SHARE_VERSION_LEVEL: Final = 1
MINIMUM_ZERO_SINCE: Final = 4  # before, clients refuse a feature with the minimum version 0 (KAFKA-17011)
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: Request, context: RequestContext) -> Response:
    if context.version >= 3 and not _is_legal(request):
        return Response(error_code=errors.INVALID_REQUEST, api_keys=())
    return Response(
        error_code=errors.NONE,
        api_keys=advertised(context.connection.offered),
        supported_features=_supported(context),
        finalized_features_epoch=context.broker.image.offset,
        finalized_features=_finalized(context),
    )


def _supported(context: RequestContext) -> list[Response.SupportedFeature]:
    supported = Response.SupportedFeature
    features = [supported(name=FEATURE_NAME, min_version=OLDEST, max_version=context.broker.newest_level)]
    if context.version >= MINIMUM_ZERO_SINCE:
        features.append(supported(name=SHARE_VERSION, min_version=0, max_version=SHARE_VERSION_LEVEL))
    return features


def _finalized(context: RequestContext) -> list[Response.FinalizedFeature]:
    levels = ((FEATURE_NAME, context.broker.image.feature_level), (SHARE_VERSION, SHARE_VERSION_LEVEL))
    return [
        Response.FinalizedFeature(name=name, max_version_level=level, min_version_level=1)
        for name, level in levels
        if level > 0  # the image of a broker that is starting has none yet
    ]


def _is_legal(request: Request) -> bool:
    """
    Return whether the client's software name and version match the pattern in KIP-511, so that they are safe to show in
    metrics.
    """
    return all(_SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version))
