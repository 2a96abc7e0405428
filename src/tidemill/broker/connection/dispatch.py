"""Dispatch: finds the handler of each API.  ApiVersions advertises exactly Kafka's APIs that have a handler.

Each API is handled by the function `handle` of the module in `broker/handlers` that is named after the API.  If the
module also has a function `refused`, only the controller handles the API, and other brokers forward requests to it.
`refused(request, error_code)` returns the response to a request that no controller has handled.  `SINCE_LEVEL` of such
a module is the newest feature level of the first version of Tidemill that knows the API, if it is not the oldest one.
"""

import pkgutil
from importlib import import_module
from types import ModuleType
from typing import Final

from tidemill.broker import handlers
from tidemill.broker.connection.forwarding import Handler, forwarded
from tidemill.metadata.feature_levels import OLDEST
from tidemill.peer import (
    cluster_operation,
    cluster_report,
    share_describe,
    share_receipts,
    share_receive,
    share_resolve,
    timer_list,
    timer_resolve,
)
from tidemill.wire.api import ALL
from tidemill.wire.schema import Api

UNLISTED: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        share_describe.API,
        share_receive.API,
        share_resolve.API,
        share_receipts.API,
        timer_resolve.API,
        timer_list.API,
        cluster_operation.API,
        cluster_report.API,
    )
}
"""Tidemill's own APIs: clients and brokers use them, but ApiVersions does not list them."""


def _modules() -> dict[Api, ModuleType]:
    by_name = {api.name: api for api in (*ALL.values(), *UNLISTED.values())}
    found = (module.name for module in pkgutil.iter_modules(handlers.__path__))
    return {by_name[name]: import_module(f"{handlers.__name__}.{name}") for name in found if name in by_name}


def _handler_of(api: Api, module: ModuleType) -> Handler:
    if not hasattr(module, "refused"):
        return module.handle  # type: ignore[no-any-return]
    return forwarded(api, module.handle, module.refused, since_level=getattr(module, "SINCE_LEVEL", OLDEST))


_MODULES: Final = _modules()

HANDLERS: Final[dict[int, Handler]] = {api.key: _handler_of(api, module) for api, module in _MODULES.items()}
"""The handler of each API key.  A handler returns a response, or a `Pending` that completes with one."""

CONTROLLER_HANDLERS: Final[dict[int, Handler]] = {
    api.key: module.handle for api, module in _MODULES.items() if hasattr(module, "refused")
}
"""The handlers of requests that other brokers forward while this broker is the controller."""

OFFERED: Final[dict[int, Api]] = {key: ALL[key] for key in HANDLERS if key in ALL}
"""The APIs that ApiVersions lists."""
