"""Requests to the first broker that responds: a read waits for a moment if none is ready."""

from typing import Any

import pytest

from tidemill.cli import cluster_http
from tidemill.cli.cluster_http import ClusterHttp
from tidemill.client.broker_http import NotReady


def test_a_read_waits_for_a_controller_that_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(address: str, path: str, **_: Any) -> dict[str, Any]:
        asked.append(address)
        if len(asked) <= 2:
            raise NotReady("try again in a second")
        return {"brokers": [1]}

    monkeypatch.setattr(cluster_http, "ask", ask)
    monkeypatch.setattr(cluster_http, "POLL_S", 0.001)

    assert {"brokers": [1]} == ClusterHttp(["a", "b"]).get("/v1/rebalance")
    assert ["a", "b", "a"] == asked


def test_a_read_does_not_wait_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(address: str, path: str, **_: Any) -> dict[str, Any]:
        raise NotReady("try again in a second")

    monkeypatch.setattr(cluster_http, "ask", ask)
    monkeypatch.setattr(cluster_http, "BEGIN_S", 0.01)

    with pytest.raises(NotReady, match="try again"):
        ClusterHttp(["a"]).get("/v1/rebalance")
