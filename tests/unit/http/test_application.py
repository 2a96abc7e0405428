"""The health and metrics endpoints, and the errors for all other requests."""

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from tests.unit.http.test_cluster_api import Cluster
from tidemill.http.application import Application


class Broker:
    def __init__(self, *, is_live: bool = True, is_ready: bool = True, counts: bool = True) -> None:
        self.is_live = is_live
        self.is_ready = is_ready
        self.counts = counts

    def problems(self) -> list[dict[str, object]]:
        return [{"problem": "disk_nearly_full", "count": 1, "detail": "free some"}]

    def metrics_text(self) -> str | None:
        return "tidemill_up 1\n" if self.counts else None


async def console(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": f"console {scope['path']}".encode()})


def answer_of(application: Application, path: str, **scope: Any) -> tuple[int, bytes]:
    """Send a GET request from this machine.  `scope` overrides keys of the ASGI scope."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("no body is read")

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    request = {"type": "http", "method": "GET", "path": path, "headers": [], "client": ("127.0.0.1", 50_000)}
    asyncio.run(application(request | scope, receive, send))
    assert sent[0]["status"] != 503 or (b"retry-after", b"1") in sent[0]["headers"]
    return sent[0]["status"], sent[1]["body"]


def answer(broker: Broker, path: str, method: str = "GET") -> tuple[int, bytes]:
    return answer_of(Application(broker, Cluster), path, method=method)


@pytest.mark.parametrize(
    ("broker", "live", "ready"),
    [
        (Broker(), 200, 200),
        (Broker(is_ready=False), 200, 503),
        (Broker(is_live=False), 503, 503),
    ],
)
def test_a_failed_broker_is_not_ready(broker: Broker, live: int, ready: int) -> None:
    """
    A broker that is not ready is still live, so that it is not restarted.  A broker that is not live is never ready.
    """
    answers = (answer(broker, "/health/live")[0], answer(broker, "/health/ready")[0])

    assert (live, ready) == answers


def test_readiness_lists_what_is_degraded() -> None:
    """
    A degraded broker stays ready, because otherwise its clients would lose even what still works.
    """
    answers = [answer(Broker(is_ready=is_ready), "/health/ready") for is_ready in (True, False)]

    problems = Broker().problems()
    assert [200, 503] == [status for status, _ in answers]
    assert [
        {"status": "ready", "problems": problems},
        {"status": "not ready", "problems": problems},
    ] == [json.loads(body) for _, body in answers]


def test_metrics_are_served_as_the_broker_renders_them() -> None:
    """
    The metrics endpoint returns exactly the text that the broker renders.
    """
    answered = answer(Broker(), "/metrics")

    assert (200, b"tidemill_up 1\n") == answered


def test_metrics_are_unavailable_before_the_broker_has_any() -> None:
    """
    Until the broker has metrics, the endpoint is unavailable: a page of zeros would look like an idle broker.
    """
    status, body = answer(Broker(is_ready=False, counts=False), "/metrics")

    assert (503, 503) == (status, json.loads(body)["status"])


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("POST", "/metrics", 405), ("HEAD", "/metrics", 200)]
)
def test_other_requests_get_the_status_that_http_prescribes(method: str, path: str, status: int) -> None:
    """
    An unknown path gets status 404 and a method that is not allowed gets 405; HEAD is handled like GET.
    """
    answered, _ = answer(Broker(), path, method)

    assert status == answered


def test_an_error_is_a_problem_document() -> None:
    """
    An error is returned as a problem document with the fields of RFC 9457, and its detail names the fix.
    """
    status, body = answer(Broker(), "/nowhere")

    told = json.loads(body)
    assert (404, 404, "Not Found", "about:blank") == (status, told["status"], told["title"], told["type"])
    assert "/nowhere" in told["detail"] and "/v1/shards" in told["detail"]


@pytest.mark.parametrize("path", ["/", "/topics/metrics", "/v10", "/favicon.ico", "*"])
def test_all_other_paths_belong_to_the_console(path: str) -> None:
    """
    The console gets every path that does not belong to the API.
    """
    answered = answer_of(Application(Broker(), Cluster, console), path)

    assert (200, f"console {path}".encode()) == answered


@pytest.mark.parametrize("path", ["/metrics", "/health/live", "/v1/nothing", "/health", "/metrics/x"])
def test_the_console_does_not_get_the_paths_of_the_api(path: str) -> None:
    """
    The API answers for everything below its own paths, even for what does not exist, so that programs get problem
    documents.
    """
    _, body = answer_of(Application(Broker(), Cluster, console), path)

    assert b"console" not in body


@pytest.mark.parametrize(
    "scope",
    [
        {"client": ("10.0.0.7", 50_000)},
        {"client": None},
        {"headers": [(b"host", b"rebound.example:9080")]},
        {"headers": [(b"host", b"10.0.0.1")]},
    ],
)
def test_the_console_is_served_on_this_machine_only(scope: dict[str, Any]) -> None:
    """
    The console shows records, and authentication is not implemented, so only clients on this machine are served, as
    below `/v1`.
    """
    status, body = answer_of(Application(Broker(), Cluster, console), "/topics", **scope)

    assert 403 == status and "127.0.0.1" in json.loads(body)["detail"]
