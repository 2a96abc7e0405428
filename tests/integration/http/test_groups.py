"""Groups over HTTP, on a cluster of three brokers: every broker answers for every group, of either type."""

import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.integration.cli.dev_cluster import Cluster
from tests.integration.cli.group_in_use import member_of, share_member_of
from tests.integration.http.http_client import HttpClient, wait_for, wait_until_known

PARTITIONS = 2
RECORDS = 3  # in each partition, at 1000 ms, 2000 ms and 3000 ms


@pytest.fixture(scope="session")
def topic(brokers: list[HttpClient]) -> str:
    name = f"grouped-{uuid.uuid4().hex[:8]}"
    body = {"name": name, "partitions": PARTITIONS, "replication_factor": 3}
    assert 201 == brokers[0].send("POST", "/v1/topics", body).status
    wait_until_known(brokers, name)
    records = [
        {"value": f"{number}/{at}", "partition": number, "timestamp": (at + 1) * 1_000}
        for number in range(PARTITIONS)
        for at in range(RECORDS)
    ]
    brokers[0].ok("POST", f"/v1/topics/{name}/records", {"records": records})
    return name


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def consumers(cluster: Cluster, topic: str, group: str) -> str:
    """Return the name of a consumer group that has read one record of partition 0."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    return group


@pytest.fixture
def sharers(brokers: list[HttpClient], topic: str, group: str) -> str:
    """Return the name of a share group that has accepted the first two records of partition 0."""
    configs = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "3"}
    assert 204 == brokers[0].send("PATCH", f"/v1/groups/{group}", {"configs": configs}).status
    body = {"consumer": "me", "max": 2, "wait_ms": 20_000, "partition": 0}
    messages = brokers[1].ok("POST", f"/v1/queues/{topic}/{group}/receive", body)["messages"]
    receipts = [it["receipt"] for it in messages]
    assert ["ok", "ok"] == brokers[2].ok("POST", f"/v1/queues/{topic}/{group}/ack", {"receipts": receipts})["statuses"]
    return group


def offsets(client: HttpClient, group: str, query: str = "") -> list[tuple[Any, ...]]:
    rows = client.ok("GET", f"/v1/groups/{group}/offsets{query}")["offsets"]
    return [(it["partition"], it["offset"], it["end"], it["lag"]) for it in rows]


def test_groups_of_both_types_are_listed_page_by_page(
    brokers: list[HttpClient], consumers: str, cluster: Cluster, topic: str
) -> None:
    with share_member_of(cluster.bootstrap, f"{consumers}.s", topic) as consumer:
        consumer.poll(1)
        for client in brokers:
            page = client.ok("GET", f"/v1/groups?after={consumers[:-1]}&limit=1")
            rest = client.ok("GET", f"/v1/groups?after={consumers}&limit=1")
            assert ([{"group": consumers, "type": "Classic", "state": "Empty"}], True) == (page["groups"], page["more"])
            assert [{"group": f"{consumers}.s", "type": "Share", "state": "Stable"}] == rest["groups"]


def test_a_group_shows_its_members(brokers: list[HttpClient], cluster: Cluster, topic: str, group: str) -> None:
    """
    A group with members is neither reset nor deleted.
    """
    with member_of(cluster.bootstrap, group, topic):
        for client in brokers:
            shown = client.ok("GET", f"/v1/groups/{group}")
            assert ("Classic", "Stable", {}) == (shown["type"], shown["state"], shown["configs"])
            assert shown["coordinator"] in (1, 2, 3)
            (member,) = shown["members"]
            assert ("reader", None, "127.0.0.1") == (
                member["client_id"],
                member["instance_id"],
                member["host"].lstrip("/"),
            )
            assert [{"topic": topic, "partition": it} for it in range(PARTITIONS)] == member["partitions"]
        reset = brokers[0].send("PATCH", f"/v1/groups/{group}/offsets", {"topic": topic, "to": "latest"})
        deleted = brokers[1].send("DELETE", f"/v1/groups/{group}")
        for refused in (reset, deleted):
            assert (409, "NON_EMPTY_GROUP") == (refused.status, refused.body.get("error")), refused


def test_a_share_group_shows_its_members(brokers: list[HttpClient], cluster: Cluster, topic: str, group: str) -> None:
    with share_member_of(cluster.bootstrap, group, topic) as consumer:
        wait_for(lambda: consumer.poll(0.1) or _partitions(brokers[0], group), "no partition is assigned")
        wait_for(lambda: PARTITIONS == len(_partitions(brokers[0], group)), "not all partitions are assigned")
        shown = brokers[2].ok("GET", f"/v1/groups/{group}")
        assert ("Share", "Stable", "sharer") == (shown["type"], shown["state"], shown["members"][0]["client_id"])
        reset = brokers[0].send("PATCH", f"/v1/groups/{group}/offsets", {"topic": topic, "to": "latest"})
        deleted = brokers[1].send("DELETE", f"/v1/groups/{group}")
        for refused in (reset, deleted):
            assert (409, "NON_EMPTY_GROUP") == (refused.status, refused.body.get("error")), refused


def _partitions(client: HttpClient, group: str) -> list[object]:
    answered = client.send("GET", f"/v1/groups/{group}")
    members = answered.body["members"] if answered.status == 200 else []
    return [partition for member in members for partition in member["partitions"]]


def test_configuration_is_set_before_the_group_exists(brokers: list[HttpClient], sharers: str) -> None:
    """
    The limit of deliveries, for example; null restores the default, and an illegal value changes nothing.
    """
    path = f"/v1/groups/{sharers}"
    shown = brokers[1].ok("GET", path)
    assert {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "3"} == shown["configs"]

    illegal = {"share.delivery.count.limit": "1", "share.auto.offset.reset": None}
    refused = brokers[0].send("PATCH", path, {"configs": illegal})
    assert (400, "INVALID_CONFIG") == (refused.status, refused.body.get("error"))
    changed = brokers[2].send("PATCH", path, {"configs": {"share.delivery.count.limit": None}})
    assert (204, None) == (changed.status, changed.body)
    wait_for(
        lambda: {"share.auto.offset.reset": "earliest"} == brokers[0].ok("GET", path)["configs"],
        "no default is restored",
    )


def test_offsets_of_a_consumer_group_are_shown_and_reset(brokers: list[HttpClient], topic: str, consumers: str) -> None:
    path = f"/v1/groups/{consumers}/offsets"
    for client in brokers:
        assert [(0, 1, RECORDS, 2)] == offsets(client, consumers)
        assert [(0, 1, RECORDS, 2), (1, None, RECORDS, None)] == offsets(client, consumers, f"?topic={topic}")

    for body, expected in [
        ({"to": "latest"}, [RECORDS, RECORDS]),
        ({"to": "earliest", "partitions": [1]}, [RECORDS, 0]),
        ({"time": 1_500}, [1, 1]),
        ({"time": 9_000, "partitions": [0]}, [RECORDS, 1]),
        ({"offsets": {"0": 2}}, [2, 1]),
    ]:
        answered = brokers[1].ok("PATCH", path, {"topic": topic, **body})
        rows = offsets(brokers[2], consumers)
        assert expected == [row[1] for row in rows], body
        shown = [{"partition": number, "offset": offset} for number, offset, _, _ in rows]
        assert all(row in shown for row in answered["offsets"]) and answered["topic"] == topic


def test_offsets_of_a_share_group_are_shown_and_reset(brokers: list[HttpClient], topic: str, sharers: str) -> None:
    path = f"/v1/groups/{sharers}/offsets"
    for client in brokers:
        assert (0, 2, RECORDS, 1) == offsets(client, sharers, f"?topic={topic}")[0]

    assert brokers[1].ok("PATCH", path, {"topic": topic, "time": 1_500})["offsets"] == [
        {"partition": number, "offset": 1} for number in range(PARTITIONS)
    ]
    assert [(0, 1, RECORDS, 2), (1, 1, RECORDS, 2)] == offsets(brokers[2], sharers)


def test_a_share_group_with_leased_messages_is_not_reset(brokers: list[HttpClient], topic: str, sharers: str) -> None:
    body = {"consumer": "me", "wait_ms": 20_000, "partition": 0}
    (message,) = brokers[0].ok("POST", f"/v1/queues/{topic}/{sharers}/receive", body)["messages"]
    assert f"0/{RECORDS - 1}" == message["value"]

    refused = brokers[1].send("PATCH", f"/v1/groups/{sharers}/offsets", {"topic": topic, "to": "earliest"})

    assert (409, "NON_EMPTY_GROUP") == (refused.status, refused.body.get("error")), refused


@pytest.mark.parametrize("made", ["consumers", "sharers"])
def test_a_group_is_deleted(brokers: list[HttpClient], made: str, request: pytest.FixtureRequest) -> None:
    group = request.getfixturevalue(made)
    deleted = brokers[1].send("DELETE", f"/v1/groups/{group}")

    assert (204, None) == (deleted.status, deleted.body)
    for client in brokers:
        again = client.send("DELETE", f"/v1/groups/{group}")
        shown = client.send("GET", f"/v1/groups/{group}")
        assert [(404, "GROUP_ID_NOT_FOUND")] * 2 == [(it.status, it.body.get("error")) for it in (again, shown)]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "missing", None, 404),
        ("GET", "missing/offsets", None, 404),
        ("DELETE", "missing", None, 404),
        ("PATCH", "missing/offsets", {"topic": "{topic}", "to": "latest"}, 404),
        ("PATCH", "missing", {"configs": {}}, 400),
        ("PATCH", "missing", {"configs": {"colour": "red"}}, 400),
        ("PATCH", "{group}/offsets", {"topic": "missing", "to": "latest"}, 404),
        ("PATCH", "{group}/offsets", {"topic": "{topic}"}, 400),
        ("PATCH", "{group}/offsets", {"topic": "{topic}", "to": "latest", "time": 1}, 400),
        ("PATCH", "{group}/offsets", {"topic": "{topic}", "to": "newest"}, 400),
        ("PATCH", "{group}/offsets", {"topic": "{topic}", "to": "latest", "partitions": [2]}, 404),
        ("PATCH", "{group}/offsets", {"topic": "{topic}", "offsets": {"0": 1}, "partitions": [0]}, 400),
        ("PATCH", "{group}/offsets", {"topic": "{topic}", "offsets": {"0": 4}}, 400),
        ("PATCH", "{group}/offsets", {"topic": "{topic}", "offsets": {"-1": 0}}, 404),
        ("GET", "{group}/offsets?topic=missing", None, 404),
        ("PUT", "{group}", {"configs": {}}, 405),
    ],
)
def test_bad_requests_are_refused(
    brokers: list[HttpClient], topic: str, consumers: str, method: str, path: str, body: Any, status: int
) -> None:
    """
    They change nothing.
    """
    if body is not None and "topic" in body:
        body = {**body, "topic": body["topic"].format(topic=topic)}

    answered = brokers[1].send(method, f"/v1/groups/{path.format(group=consumers)}", body)

    assert status == answered.status, answered
    assert "application/problem+json" == answered.headers["content-type"]
    assert answered.body["detail"]
    assert [(0, 1, RECORDS, 2)] == offsets(brokers[0], consumers)
