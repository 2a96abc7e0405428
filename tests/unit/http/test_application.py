"""The health and metrics endpoints, and errors for other requests."""

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


def answer(broker: Broker, path: str, method: str = "GET") -> tuple[int, bytes]:
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("no body is read")

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(Application(broker, Cluster)({"type": "http", "method": method, "path": path}, receive, send))
    return sent[0]["status"], sent[1]["body"]


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
    A broker that is not ready is still live, so that it is not restarted; a broker that is not live is not ready
    either.
    """
    answers = (answer(broker, "/health/live")[0], answer(broker, "/health/ready")[0])

    assert (live, ready) == answers


def test_readiness_lists_what_is_degraded() -> None:
    """
    A degraded broker stays ready: otherwise its clients would lose what is left.
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
    The metrics endpoint returns the text that the broker renders, unchanged.
    """
    answered = answer(Broker(), "/metrics")

    assert (200, b"tidemill_up 1\n") == answered


def test_metrics_are_unavailable_before_the_broker_has_any() -> None:
    """
    Metrics are unavailable until the broker has some, because a page of zeros would look like an idle broker.
    """
    status, body = answer(Broker(is_ready=False, counts=False), "/metrics")

    assert (503, 503) == (status, json.loads(body)["status"])


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("POST", "/metrics", 405), ("HEAD", "/metrics", 200)]
)
def test_other_requests_get_the_status_that_http_prescribes(method: str, path: str, status: int) -> None:
    """
    An unknown path is 404 and a method that is not allowed is 405; HEAD is handled like GET.
    """
    answered, _ = answer(Broker(), path, method)

    assert status == answered


def test_an_error_is_a_problem_document() -> None:
    """
    An error is a problem document with the fields of RFC 9457, and its detail names the fix.
    """
    status, body = answer(Broker(), "/nowhere")

    told = json.loads(body)
    assert (404, 404, "Not Found", "about:blank") == (status, told["status"], told["title"], told["type"])
    assert "/nowhere" in told["detail"] and "/v1/shards" in told["detail"]
