"""Refuses HTTP requests with a head that is too large, and most requests while few connections are left."""

from collections.abc import Callable
from typing import Final, NamedTuple

from tidemill.http.answer import Answer, Asgi, Receive, Scope, Send, problem, send_answer

CONNECTIONS_MAX: Final = 1_024  # each costs about 50 KB, and a file descriptor
RESERVED: Final = 16  # of these connections, for the paths that tell whether the broker is well
RESERVED_FOR: Final = ("/health/live", "/health/ready", "/metrics")
HEAD_BYTES_MAX: Final = 16 << 10  # path, query and headers: several times what browsers send
HEADERS_MAX: Final = 100
_CLOSE: Final = (b"connection", b"close")
_RETRY_AFTER: Final = (b"retry-after", b"1")


class Admission:
    """An ASGI application that passes the requests that it admits to another one."""

    def __init__(self, application: Asgi, connections: Callable[[], int], log: Callable[[str], None]) -> None:
        """`connections` returns the number of open connections.  `log` gets the reason of each refusal."""
        self._application = application
        self._connections = connections
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refusal(scope)
        if refused is None:
            await self._application(scope, receive, send)
        else:
            self._log(refused.detail)
            await send_answer(refused.answer, scope, send)

    def _refusal(self, scope: Scope) -> "_Refusal | None":
        size = len(scope["raw_path"]) + len(scope["query_string"])
        size += sum(len(name) + len(value) for name, value in scope["headers"])
        if size > HEAD_BYTES_MAX or len(scope["headers"]) > HEADERS_MAX:
            return _refusal(
                431,
                f"the head of the request has {size} bytes and {len(scope['headers'])} headers; send at most "
                f"{HEAD_BYTES_MAX} bytes and {HEADERS_MAX} headers",
            )
        count = self._connections()
        if count > (CONNECTIONS_MAX if scope["path"] in RESERVED_FOR else CONNECTIONS_MAX - RESERVED):
            return _refusal(
                503,
                f"{scope['path'][:200]} is not served while {count} HTTP connections are open: close those that you "
                "do not use, and try again, or ask another broker",
                _RETRY_AFTER,
            )
        return None


class _Refusal(NamedTuple):
    detail: str
    answer: Answer


def _refusal(status: int, detail: str, *headers: tuple[bytes, bytes]) -> _Refusal:
    return _Refusal(detail, problem(status, detail)._replace(headers=(_CLOSE, *headers)))
