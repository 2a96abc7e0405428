"""Brokers and shards over HTTP: any broker answers, the controller decides, and a refusal says why."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.http.http_client import HttpClient

SECONDS_MAX = 30.0


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < until, "it did not become true"
        time.sleep(0.1)


def shards_of(broker: HttpClient, topic: str) -> list[dict[str, Any]]:
    return list(broker.send("GET", f"/v1/shards?topic={topic}").body["shards"])


def row_of(broker: HttpClient, broker_id: int) -> dict[str, Any]:
    rows = broker.send("GET", "/v1/rebalance").body.get("brokers", [])  # a new controller has none to tell
    return next((row for row in rows if row["broker_id"] == broker_id), {"drain": "unknown"})


@pytest.fixture
def topic(brokers: list[HttpClient], request: pytest.FixtureRequest) -> str:
    """Return a new topic of one shard, whose leader is known."""
    name = f"moved-{request.node.name[:60].strip('[]')}"
    created = brokers[0].send("POST", "/v1/topics", {"name": name, "partitions": 1})
    assert 201 == created.status
    eventually(lambda: any(row["leader"] is not None for row in shards_of(brokers[0], name)))
    return name


def test_any_broker_reports_what_the_controller_knows(brokers: list[HttpClient]) -> None:
    eventually(lambda: len(brokers[0].send("GET", "/v1/rebalance").body.get("brokers", [])) == 3)

    reports = [broker.send("GET", "/v1/rebalance?dry_run=true") for broker in brokers]

    assert [200] * 3 == [it.status for it in reports]
    for report in reports:
        assert [(1, "active"), (2, "active"), (3, "active")] == [
            (row["broker_id"], row["presence"]) for row in report.body["brokers"]
        ]


def test_leaders_leave_a_drained_broker_and_come_back(brokers: list[HttpClient], topic: str) -> None:
    """The plan of replicas stays the same."""
    (before,) = shards_of(brokers[0], topic)
    leader = before["leader"]

    drained = brokers[1].send("POST", f"/v1/brokers/{leader}/drain", {"of": "leaders"})
    assert (200, []) == (drained.status, drained.body["findings"])
    eventually(lambda: shards_of(brokers[0], topic)[0]["leader"] not in (None, leader))
    eventually(lambda: row_of(brokers[2], leader)["drain"] == "leaders")
    assert before["replicas"] == shards_of(brokers[0], topic)[0]["replicas"]

    assert 200 == brokers[2].send("POST", f"/v1/brokers/{leader}/undrain", {}).status
    eventually(lambda: row_of(brokers[0], leader)["drain"] == "none")
    # A transfer to the broker is refused as long as it is drained.
    path = f"/v1/shards/{before['shard_id']}/transfer"
    eventually(lambda: brokers[1].send("POST", path, {"broker_id": leader}).status == 200)
    eventually(lambda: shards_of(brokers[0], topic)[0]["leader"] == leader)


def test_a_drain_that_has_no_place_is_refused_with_every_shard(brokers: list[HttpClient], topic: str) -> None:
    """With three brokers and three replicas nothing can leave, and nothing is changed."""
    (shard,) = shards_of(brokers[0], topic)
    eventually(lambda: brokers[0].send("GET", "/v1/brokers/3/may-stop").body["may_stop"])

    for body in ({"of": "all", "dry_run": True}, {"of": "all"}):
        refused = brokers[1].send("POST", "/v1/brokers/3/drain", body)

        assert (400, "INVALID_REQUEST") == (refused.status, refused.body["error"])
        assert shard["shard_id"] in [finding["shard_id"] for finding in refused.body["findings"]]
    assert "none" == row_of(brokers[0], 3)["drain"]


def test_a_broker_may_stop_while_the_others_are_in_sync(brokers: list[HttpClient], topic: str) -> None:
    eventually(lambda: brokers[0].send("GET", "/v1/brokers/2/may-stop").body["may_stop"])

    answer = brokers[2].send("GET", "/v1/brokers/2/may-stop")

    assert (200, True, []) == (answer.status, answer.body["may_stop"], answer.body["findings"])


def test_a_shard_gets_fewer_replicas_and_more_again(brokers: list[HttpClient], topic: str) -> None:
    (before,) = shards_of(brokers[0], topic)
    shard_id, brokers_before = before["shard_id"], before["replicas"]
    path = f"/v1/shards/{shard_id}/move"

    assert 200 == brokers[0].send("POST", path, {"brokers": brokers_before[:2]}).status
    eventually(lambda: voters_of(brokers, topic) == set(brokers_before[:2]))
    assert 200 == brokers[1].send("POST", path, {"brokers": brokers_before}).status
    eventually(lambda: voters_of(brokers, topic) == set(brokers_before))
    eventually(lambda: brokers[0].send("GET", "/v1/moves").body.get("count") == 0)

    cancelled = brokers[0].send("DELETE", f"/v1/moves/{shard_id}")
    assert (409, "NO_REASSIGNMENT_IN_PROGRESS") == (cancelled.status, cancelled.body["error"])


def voters_of(brokers: list[HttpClient], topic: str) -> set[int]:
    """Return the voters of a topic of one shard, as its leader tells; none while it has no leader."""
    rows = [shards_of(broker, topic)[0]["led_here"] for broker in brokers]
    return next(({*row["voters"]} for row in rows if row is not None), set())


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/v1/brokers/9/drain", {"of": "all"}, 404, "broker 9 is not in this cluster"),
        ("POST", "/v1/brokers/9/undrain", {}, 404, "broker 9 is not in this cluster"),
        ("GET", "/v1/brokers/9/may-stop", None, 404, "broker 9 is not in this cluster"),
        ("GET", "/v1/brokers/x/may-stop", None, 404, "broker 'x' does not exist"),
        ("GET", "/v1/brokers/99999999999/may-stop", None, 404, "does not exist"),
        ("DELETE", "/v1/brokers/2", None, 400, "it is live"),
        ("POST", "/v1/brokers/replace", {}, 400, "no broker is SILENT"),
        ("POST", "/v1/brokers/replace", {"brokers": [2]}, 400, "broker 2"),
        ("POST", "/v1/brokers/2/drain", {"of": "some"}, 400, "$.of"),
        ("POST", "/v1/shards/77777/move", {"brokers": [1]}, 404, "there is no shard 77777"),
        ("POST", "/v1/shards/0/move", {"brokers": [1]}, 400, "the cluster places the replicas of its metadata"),
        ("POST", "/v1/shards/0/move", {"brokers": []}, 400, "$.brokers"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    brokers: list[HttpClient], method: str, path: str, body: dict[str, Any] | None, status: int, says: str
) -> None:
    refused = brokers[1].send(method, path, body)

    assert status == refused.status, refused.body
    assert says in refused.body["detail"]
