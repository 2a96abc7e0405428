"""Which handler answers which API: all that works, and nothing else is advertised."""

from collections.abc import Callable
from typing import Any, Final

from tidemill.broker.handlers import (
    api_versions,
    fetch,
    metadata,
    produce,
)
from tidemill.broker.request_context import RequestContext
from tidemill.wire.api import ALL
from tidemill.wire.messages import api_versions as api_versions_api
from tidemill.wire.messages import fetch as fetch_api
from tidemill.wire.messages import metadata as metadata_api
from tidemill.wire.messages import produce as produce_api
from tidemill.wire.schema import Api

Handler = Callable[[Any, RequestContext], object]

HANDLERS: Final[dict[int, Handler]] = {
    api_versions_api.API.key: api_versions.handle,
    fetch_api.API.key: fetch.handle,
    metadata_api.API.key: metadata.handle,
    produce_api.API.key: produce.handle,
}
"""API key → handler.  A handler gives a response, or a `Pending` that will."""

OFFERED: Final[dict[int, Api]] = {key: ALL[key] for key in HANDLERS}
"""What ApiVersions lists."""
