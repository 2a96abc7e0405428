"""Queues over HTTP, on a cluster of three brokers: every broker answers for every partition."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.integration.cli.dev_cluster import Cluster
from tests.integration.http.http_client import HttpClient, wait_until_known

PARTITIONS = 3
RECORDS = 60
LEASE_MS = 3_000  # longer than a machine stalls between a receive and what follows


class Queue:
    """A topic with a leader on every broker, and a share group that begins at its start."""

    def __init__(self, cluster: Cluster, brokers: list[HttpClient]) -> None:
        self.topic, self.group = f"jobs-{uuid.uuid4().hex[:8]}", f"g-{uuid.uuid4().hex[:8]}"
        self.brokers = brokers
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 3)], request_timeout=60)[self.topic].result()
        earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=[earliest])
        admin.incremental_alter_configs([resource])[resource].result(30)
        wait_until_known(brokers, self.topic)
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def produce(self, *values: bytes | None, partition: int = -1) -> None:
        for at, value in enumerate(values):
            number = at % PARTITIONS if partition < 0 else partition
            self._producer.produce(self.topic, value, f"k{at}", number, headers=[("trace", b"\xff")])
        assert not self._producer.flush(30)

    def path(self, call: str) -> str:
        return f"/v1/queues/{self.topic}/{self.group}/{call}"

    def receive(self, at: int = 0, **fields: Any) -> list[dict[str, Any]]:
        body = {"consumer": "me", "max": 500, "wait_ms": 20_000, **fields}
        messages: list[dict[str, Any]] = self.brokers[at].ok("POST", self.path("receive"), body)["messages"]
        return messages

    def statuses(self, call: str, messages: list[dict[str, Any]], at: int = 0, **fields: Any) -> list[str]:
        body = {"receipts": [it["receipt"] for it in messages], **fields}
        found: list[str] = self.brokers[at].ok("POST", self.path(call), body)["statuses"]
        return found

    def totals(self, at: int = 0) -> dict[str, int]:
        partitions = self.brokers[at].ok("GET", f"/v1/queues/{self.topic}/{self.group}")["partitions"]
        assert list(range(PARTITIONS)) == [it["partition"] for it in partitions]
        return {
            name: sum(it[name] or 0 for it in partitions) for name in ("start", "end", "available", "delayed", "locked")
        }


@pytest.fixture
def queue(cluster: Cluster, brokers: list[HttpClient]) -> Queue:
    return Queue(cluster, brokers)


def test_every_broker_answers_for_every_partition(queue: Queue) -> None:
    """
    Messages of all partitions are received from one broker, and acknowledged at another one.
    """
    queue.produce(*(b"v%d" % number for number in range(RECORDS)))
    found: list[dict[str, Any]] = []
    while len(found) < RECORDS:
        batch = queue.receive(0, max=7)
        assert batch, "a message is missing"
        found += batch

    assert {f"v{number}" for number in range(RECORDS)} == {it["value"] for it in found}
    assert {(1, (("trace", "base64", "/w=="),))} == {
        (it["attempt"], tuple((name, *value, *value.values()) for name, value in it["headers"])) for it in found
    }
    assert {"locked": RECORDS, "start": 0} == {name: queue.totals(1)[name] for name in ("locked", "start")}
    assert ["ok"] * RECORDS == queue.statuses("ack", found, at=2)
    assert ["ok"] * RECORDS == queue.statuses("ack", found, at=1), "an acknowledgement can be repeated"
    assert RECORDS == queue.totals(2)["start"] == queue.totals(0)["end"]
    assert [] == queue.receive(1, wait_ms=0)


def test_messages_come_back(queue: Queue) -> None:
    """
    At once or after a delay, and not to the receipts of the delivery before.
    """
    queue.produce(b"a", b"b", partition=0)
    first = queue.receive(max=1)
    assert ["ok"] == queue.statuses("nack", first, at=1, delay_ms=0)
    again = queue.receive(1, max=1)
    assert [("a", 2)] == [(it["value"], it["attempt"]) for it in again]
    for call in ("ack", "reject", "extend"):
        assert ["expired"] == queue.statuses(call, first), call
    assert ["ok"] == queue.statuses("nack", again, delay_ms=3_600_000)
    (other,) = queue.receive(2)
    assert "b" == other["value"]
    assert 1 == queue.totals()["delayed"]
    assert ["ok"] == queue.statuses("reject", [other])
    assert [] == queue.receive(2, wait_ms=0)


def test_a_delivery_that_was_not_begun_does_not_count(queue: Queue) -> None:
    """At whichever broker it is given back."""
    queue.produce(b"a", partition=0)
    for at in range(3):
        found = queue.receive(at, max=1)
        assert [("a", 1)] == [(it["value"], it["attempt"]) for it in found]
        assert ["ok"] == queue.statuses("nack", found, at=at, counted=False)
    refused = queue.brokers[0].send(
        "POST", queue.path("nack"), {"receipts": [found[0]["receipt"]], "counted": False, "delay_ms": 1}
    )
    assert 400 == refused.status


def test_a_lease_ends_and_is_extended(queue: Queue) -> None:
    queue.produce(b"a", b"b", partition=1)
    held, left = (queue.receive(partition=1, max=1, lease_ms=LEASE_MS) for _ in range(2))
    assert held[0]["lease_until"] <= time.time() * 1_000 + LEASE_MS
    assert ["ok"] == queue.statuses("extend", held, at=2, lease_ms=60_000)

    (again,) = queue.receive(1, partition=1, wait_ms=20_000)

    assert (left[0]["value"], 2) == (again["value"], again["attempt"])
    assert ["expired"] == queue.statuses("ack", left)
    assert ["ok", "ok"] == queue.statuses("ack", [*held, again])


@pytest.mark.parametrize("at", range(3))
def test_a_receive_waits_for_a_message(queue: Queue, at: int) -> None:
    """
    The message may come to a partition that another broker leads.
    """
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(queue.receive, at)
        queue.produce(b"late", partition=1)
        assert ["late"] == [it["value"] for it in waiting.result(60)]


def test_a_client_that_leaves_takes_no_message(queue: Queue) -> None:
    """
    Its receive was waiting; the message goes to the next one, as its first delivery.
    """
    queue.receive(wait_ms=0)
    for client in queue.brokers:
        client.open("POST", queue.path("receive"), {"consumer": "gone", "wait_ms": 30_000}).close()
    queue.produce(b"a", partition=2)

    assert [("a", 1)] == [(it["value"], it["attempt"]) for it in queue.receive(1)]


def test_receipts_of_others_are_invalid(queue: Queue) -> None:
    queue.produce(b"a", partition=0)
    (message,) = queue.receive()
    foreign = message | {"receipt": "x" * 58}
    other_topic = queue.brokers[0].send(
        "POST", f"/v1/queues/{queue.topic}/{queue.group}/ack", {"receipts": [foreign["receipt"], message["receipt"]]}
    )
    assert ["invalid", "ok"] == other_topic.body["statuses"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/queues/missing/g/receive", {"consumer": "me"}, 404),
        ("receive", {"consumer": ""}, 400),
        ("receive", {"consumer": "me", "max": 501}, 400),
        ("receive", {"consumer": "me", "wait_ms": 30_001}, 400),
        ("receive", {"consumer": "me", "lease_ms": 10**9}, 400),
        ("receive", {"consumer": "me", "partition": 9}, 404),
        ("receive", {"consumer": "me", "colour": 1}, 400),
        ("receive", b"{", 400),
        ("receive", b"\xff", 400),
        ("receive", b"[" * 200_000, 400),
        ("receive", b'{"consumer": "' + b"x" * (2 << 20), 413),
        ("receive", {"consumer": "me", "lease_ms": 1 << 31, "partition": 0}, 400),  # at some leader, elsewhere or not
        ("receive", {"consumer": "me", "lease_ms": 1 << 31, "partition": 1}, 400),
        ("ack", {"receipts": []}, 400),
        ("ack", {"receipts": ["x"] * 501}, 400),
        ("nack", {"receipts": ["x"], "delay_ms": -1}, 400),
        ("other", {}, 404),
    ],
)
def test_bad_requests_are_refused(queue: Queue, path: str, body: object, status: int) -> None:
    answered = queue.brokers[0].send("POST", path if path.startswith("/") else queue.path(path), body)

    assert status == answered.status, answered
    assert "application/problem+json" == answered.headers["content-type"]
    assert (status, True) == (answered.body["status"], bool(answered.body["detail"]))


def test_a_group_of_another_type_is_a_conflict(queue: Queue, cluster: Cluster) -> None:
    from confluent_kafka import Consumer, TopicPartition

    queue.produce(b"a", partition=0)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": queue.group})
    consumer.commit(offsets=[TopicPartition(queue.topic, 0, 1)], asynchronous=False)
    consumer.close()

    received = queue.brokers[0].send("POST", queue.path("receive"), {"consumer": "me"})
    described = [client.send("GET", f"/v1/queues/{queue.topic}/{queue.group}") for client in queue.brokers]

    for answered in (received, *described):
        assert (409, "GROUP_ID_NOT_FOUND") == (answered.status, answered.body.get("error")), answered


def test_a_group_that_has_not_received_anything_has_a_queue_all_the_same(queue: Queue) -> None:
    """Whether it does not exist yet, or reads other topics so far: everything is still to come."""
    queue.produce(b"a", partition=0)
    unread = {"start": 0, "available": 0, "delayed": 0, "locked": 0}

    assert {**unread, "end": 1} == queue.totals()
    other = f"{queue.topic}.other"
    assert 201 == queue.brokers[0].send("POST", "/v1/topics", {"name": other, "partitions": 1}).status
    wait_until_known(queue.brokers, other)
    queue.brokers[0].ok("POST", f"/v1/queues/{other}/{queue.group}/receive", {"consumer": "me"})
    assert {**unread, "end": 1} == queue.totals()
