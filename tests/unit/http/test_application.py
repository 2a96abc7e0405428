"""Health and metrics, and clear answers to everything else."""

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
def test_a_broker_that_failed_is_not_ready_either(broker: Broker, live: int, ready: int) -> None:
    """
    Live says whether to restart it, ready whether to send clients.
    """
    answers = (answer(broker, "/health/live")[0], answer(broker, "/health/ready")[0])

    assert (live, ready) == answers


def test_metrics_are_what_the_broker_renders() -> None:
    """
    Nothing is counted here.
    """
    answered = answer(Broker(), "/metrics")

    assert (200, b"tidemill_up 1\n") == answered


def test_before_anything_is_counted_there_are_no_metrics() -> None:
    """
    A page of zeros would be taken for a broker that does nothing.
    """
    status, body = answer(Broker(is_ready=False, counts=False), "/metrics")

    assert (503, 503) == (status, json.loads(body)["status"])


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("POST", "/metrics", 405), ("HEAD", "/metrics", 200)]
)
def test_other_requests_get_their_own_answer(method: str, path: str, status: int) -> None:
    """
    As HTTP has it.
    """
    answered, _ = answer(Broker(), path, method)

    assert status == answered


def test_a_refusal_is_a_problem_that_programs_can_read() -> None:
    """
    RFC 9457: its media type, and type, title, status and detail; the detail names the fix.
    """
    status, body = answer(Broker(), "/nowhere")

    told = json.loads(body)
    assert (404, 404, "Not Found", "about:blank") == (status, told["status"], told["title"], told["type"])
    assert "/nowhere" in told["detail"] and "/v1/shards" in told["detail"]
