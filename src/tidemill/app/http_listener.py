"""uvicorn inside our running loop: its one import site, reached when Kafka clients are served already."""

import asyncio
import socket
from typing import TYPE_CHECKING, Any, Final

from tidemill.app.listeners import Address

if TYPE_CHECKING:
    from tidemill.http.application import Application

CONNECTIONS_MAX: Final = 256  # scrapers and health checks; one more is answered with 503
BACKLOG: Final = 128
DRAIN_S: Final = 1  # stopping must take less than two seconds in all


class HttpListener:
    """`bind` takes the port at once, so that it can be told; `start` serves; `stop` ends it."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._server: Any = None
        self._serving: asyncio.Task[None] | None = None

    def bind(self, address: Address) -> Address:
        """The address with the port that was found.  Connections wait in the backlog until `start`."""
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        bound = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
        bound.setblocking(False)
        self._socket = bound
        return Address(address.host, bound.getsockname()[1])

    async def start(self, application: "Application") -> None:
        """Returns when requests are being answered."""
        import uvicorn  # 0.2 s and 10 MB

        assert self._socket is not None
        config = uvicorn.Config(
            application,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=DRAIN_S,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        # Not `serve`: that one would take over SIGINT and SIGTERM, which are the broker's.
        await self._server.startup(sockets=[self._socket])
        self._serving = asyncio.get_running_loop().create_task(self._server.main_loop())

    async def stop(self) -> None:
        """Idempotent."""
        if self._serving is not None:
            self._server.should_exit = True
            await self._serving
            self._serving = None
            await self._server.shutdown(sockets=[self._socket])
        if self._socket is not None:
            self._socket.close()
            self._socket = None
