"""Which methods the paths of the HTTP API allow."""

import asyncio
import json
from typing import Any

import pytest

from tidemill.http.v1 import openapi
from tidemill.http.v1.application import Api
from tidemill.http.v1.budgets import RESPONSE_BYTES_MAX


@pytest.fixture
def api() -> Api:
    """Return the API of a process that does not serve yet: it answers 503 on every path that it has."""
    return Api(lambda: None, "1.0")


def status_of(api: Api, method: str, path: str) -> int:
    status: int = answered(api, method, path)[0]["status"]
    return status


def answered(api: Api, method: str, path: str) -> list[dict[str, Any]]:
    """Return the messages of a response: its start, and the parts of its body."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": []}
    asyncio.run(api(scope, receive, send))
    return sent


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/topics/t", 503), ("/sandglass/topics/t/0", 503), ("/sandglass/topics/t/0/group/consumer", 405)],
)
def test_head_is_get_without_a_body_but_takes_no_messages(api: Api, path: str, status: int) -> None:
    """A receive leases messages, and the response to HEAD could not show them."""
    assert (status, 503) == (status_of(api, "HEAD", path), status_of(api, "GET", path))


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [("PUT", "/topics/t", 405, 12), ("GET", "/other", 404, 5), ("GET", "", 404, 5), ("GET", "/topics/t", 503, 14)],
)
def test_a_request_that_no_route_answers_is_refused_in_the_form_of_its_folder(
    api: Api, method: str, path: str, status: int, code: int
) -> None:
    """Clients of Sandglass know no problem documents."""
    start, body = answered(api, method, f"/sandglass{path}")
    _, problem = answered(api, method, f"/v1{path}")
    headers, error = dict(start["headers"]), json.loads(body["body"])

    assert (status, b"application/json") == (start["status"], headers[b"content-type"])
    assert (405 == status, 503 == status) == (b"allow" in headers, b"retry-after" in headers)
    assert (code, error["message"]) == (error["code"], error["error"])
    assert status == json.loads(problem["body"])["status"]


def test_the_documents_are_made_once_and_not_before_they_are_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take a tenth of a second, in which the first request of another path would hold up Kafka clients."""
    made, document = [], openapi.document
    monkeypatch.setattr(openapi, "document", lambda *given: made.append(given) or document(*given))
    api = Api(lambda: None, "1.0")

    assert 503 == status_of(api, "GET", "/v1/topics/t") and not made
    assert [200, 200, 200] == [status_of(api, "GET", path) for path in ("/openapi.json", "/docs", "/openapi.json")]
    assert 1 == len(made)


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
def test_documents_are_only_read(api: Api, path: str) -> None:
    """They exist for other methods, too."""
    assert (405, 405) == (status_of(api, "POST", path), status_of(api, "OPTIONS", path))


def test_documents_that_are_not_read_take_memory(api: Api) -> None:
    """They count like records that are not read."""
    api._budgets.response_bytes = RESPONSE_BYTES_MAX

    assert [503, 503] == [status_of(api, "GET", path) for path in ("/openapi.json", "/docs")]
