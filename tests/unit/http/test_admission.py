"""Which requests are refused before the application sees them."""

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from tidemill.http.admission import CONNECTIONS_MAX, HEAD_BYTES_MAX, HEADERS_MAX, RESERVED, Admission
from tidemill.http.answer import json_answer, send_answer

logged: list[str] = []


async def application(scope: MutableMapping[str, Any], _: Any, send: Any) -> None:
    await send_answer(json_answer({}), scope, send)


def answered(path: str, connections: int = 1, **more: Any) -> tuple[MutableMapping[str, Any], Any]:
    """Return the start and the decoded body of a response."""
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
    }
    admission = Admission(application, lambda: connections, logged.append)
    asyncio.run(admission(scope | more, None, send))  # type: ignore[arg-type]
    return sent[0], json.loads(sent[1]["body"])


@pytest.mark.parametrize(("path", "connections", "status"), [
    ("/v1/topics", CONNECTIONS_MAX - RESERVED, 200),
    ("/v1/topics", CONNECTIONS_MAX - RESERVED + 1, 503),
    ("/", CONNECTIONS_MAX - RESERVED + 1, 503),
    ("/health/ready", CONNECTIONS_MAX, 200),
    ("/health/live", CONNECTIONS_MAX, 200),
    ("/metrics", CONNECTIONS_MAX, 200),
    ("/metrics", CONNECTIONS_MAX + 1, 503),
])  # fmt: skip
def test_the_last_connections_are_for_health(path: str, connections: int, status: int) -> None:
    """
    While sixteen connections are left, only the paths of health and metrics are served; beyond the last one, none is.
    """
    start, body = answered(path, connections)

    assert status == start["status"]
    assert (status == 503) == ((b"retry-after", b"1") in start["headers"])
    assert (status == 503) == ((b"connection", b"close") in start["headers"])
    assert status == 200 or body["detail"] in logged


@pytest.mark.parametrize("more", [
    {"headers": [(b"x", b"1")] * (HEADERS_MAX + 1)},
    {"headers": [(b"x", b"1" * HEAD_BYTES_MAX)]},
    {"query_string": b"a" * HEAD_BYTES_MAX},
    {"raw_path": b"/" * (HEAD_BYTES_MAX + 1)},
])  # fmt: skip
def test_a_large_head_is_refused(more: dict[str, Any]) -> None:
    """
    The path, the query and the headers share one bound, and the number of headers has another.
    """
    start, body = answered("/v1/topics", **more)

    assert 431 == start["status"] == body["status"]
