"""Records streamed over HTTP."""

import http.client
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.cli.dev_cluster import Cluster
from tests.integration.http.http_client import HttpClient, wait_for, wait_until_known
from tests.integration.http.restarts import Restarts

PARTITIONS = 3
TIMEOUT_S = 60


@pytest.fixture
def topic(brokers: list[HttpClient]) -> str:
    name = f"stream-{uuid.uuid4().hex[:12]}"
    body = {"name": name, "partitions": PARTITIONS, "replication_factor": 3}
    assert 201 == brokers[0].send("POST", "/v1/topics", body).status
    wait_until_known(brokers, name)
    return name


def produce(client: HttpClient, topic: str, *values: str) -> None:
    records = [{"value": value, "partition": at % PARTITIONS} for at, value in enumerate(values)]
    client.ok("POST", f"/v1/topics/{topic}/records", {"records": records})


def id_of(client: HttpClient, topic: str) -> str:
    return str(client.ok("GET", f"/v1/topics/{topic}")["topic_id"])


class Event:
    def __init__(self, text: str) -> None:
        fields = dict(line.split(": ", 1) for line in text.splitlines() if not line.startswith(":"))
        self.id, self.name = fields.get("id"), fields.get("event")
        self.data: Any = json.loads(fields["data"]) if "data" in fields else None


@contextmanager
def streamed(client: HttpClient, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(client.address, timeout=TIMEOUT_S)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    assert 200 == response.status, response.read()
    try:
        yield response
    finally:
        connection.close()


def events(response: http.client.HTTPResponse) -> Iterator[Event]:
    """Yield the events of a stream, those with data."""
    text = b""
    while line := response.readline():
        if line != b"\n":
            text += line
        elif b"data: " in text:  # neither a comment nor only an id
            yield Event(text.decode())
            text = b""
        else:
            text = b""


def test_a_stream_goes_on_where_it_was_left(brokers: list[HttpClient], topic: str) -> None:
    """
    At another broker, with the last id; records of each partition come once and in order.
    """
    produce(brokers[0], topic, *(f"v{number}" for number in range(30)))
    found: list[tuple[int, int, str]] = []
    last_id = ""
    for client in (*brokers, brokers[0]):
        headers = {"Last_Event_ID": last_id} if last_id else {}
        with streamed(client, f"/v1/topics/{topic}/stream?from=earliest", **headers) as response:
            assert "text/event-stream" == response.headers["content-type"]
            for event in events(response):
                found.append((event.data["partition"], event.data["offset"], event.data["value"]))
                last_id = event.id or ""
                if len(found) in (7, 15, 16, 30):
                    break

    expected = [(number % PARTITIONS, number // PARTITIONS, f"v{number}") for number in range(30)]
    assert sorted(expected) == sorted(found)
    for partition in range(PARTITIONS):
        offsets = [offset for number, offset, _ in found if number == partition]
        assert sorted(offsets) == offsets
    assert f"0:10,1:10,2:10@{id_of(brokers[0], topic)}" == last_id


def test_new_records_come_as_lines(brokers: list[HttpClient], topic: str) -> None:
    """
    A stream begins at the end of the topic, unless it is told otherwise.
    """
    produce(brokers[0], topic, "old", "old", "old")
    with streamed(brokers[1], f"/v1/topics/{topic}/stream", Accept="application/x-ndjson") as response:
        begun = json.loads(response.readline())
        produce(brokers[2], topic, "a", "b", "c")
        found = [json.loads(response.readline()) for _ in range(3)]

    assert {"position": f"0:1,1:1,2:1@{id_of(brokers[0], topic)}"} == begun, (
        "it names the partitions that have no records yet, too"
    )
    assert {"a", "b", "c"} == {it["value"] for it in found}
    assert {1} == {it["offset"] for it in found}


@pytest.mark.parametrize("is_share", [False, True])
def test_a_stream_begins_where_a_group_continues(
    cluster: Cluster, brokers: list[HttpClient], topic: str, is_share: bool
) -> None:
    """
    And at the end of a partition for which the group has no offset.  The stream commits nothing.
    """
    produce(brokers[0], topic, *(f"v{number}" for number in range(9)))
    group = f"{topic}.group"
    if is_share:
        body = {"configs": {"share.auto.offset.reset": "earliest"}}
        assert 204 == brokers[0].send("PATCH", f"/v1/groups/{group}", body).status
        assert brokers[0].ok("POST", f"/v1/queues/{topic}/{group}/receive", {"consumer": "me", "partition": 2})
        assert brokers[0].send("PATCH", f"/v1/groups/{group}/offsets", {"topic": topic, "offsets": {"0": 2}})
    else:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
        consumer.commit(offsets=[TopicPartition(topic, 0, 2), TopicPartition(topic, 2, 0)], asynchronous=False)
        consumer.close()

    with streamed(brokers[1], f"/v1/topics/{topic}/stream?group={group}") as response:
        produce(brokers[2], topic, "a", "b", "c")
        source = events(response)
        found = [next(source).data["value"] for _ in range(7)]

    assert ["a", "b", "c", "v2", "v5", "v6", "v8"] == sorted(found)
    offsets = brokers[0].ok("GET", f"/v1/groups/{group}/offsets?topic={topic}")["offsets"]
    assert [2, None, 0] == [it["offset"] for it in offsets]
    assert 404 == brokers[1].send("GET", f"/v1/topics/{topic}/stream?group={group}.x").status
    assert 400 == brokers[1].send("GET", f"/v1/topics/{topic}/stream?group={group}&time=1").status


def test_a_stream_outlives_its_leaders(
    cluster: Cluster, brokers: list[HttpClient], restarts: Restarts, topic: str
) -> None:
    """
    The leader of a partition is killed and comes back; the stream of another broker has every record once and in order,
    and so has the stream that goes on with the last id at the broker that came back.
    """
    victim = brokers[0].ok("GET", f"/v1/topics/{topic}")["partitions"][0]["leader"]
    broker = cluster.brokers[victim - 1]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
    found: list[Event] = []

    def send_and_take(source: Iterator[Event], *values: str) -> None:
        for at, value in enumerate(values):
            producer.produce(topic, value, partition=at % PARTITIONS)
        assert not producer.flush(TIMEOUT_S)
        found.extend(next(source) for _ in values)

    path = f"/v1/topics/{topic}/stream?from=earliest"
    with streamed(brokers[victim % 3], path) as response:
        source = events(response)
        send_and_take(source, "1", "2", "3")
        restarts.kill(broker)
        send_and_take(source, "4", "5", "6")
        restarts.restart(broker)
        wait_until_known(brokers, topic)
        send_and_take(source, "7", "8", "9")
    with streamed(brokers[victim - 1], path, Last_Event_ID=found[-1].id or "") as response:
        send_and_take(events(response), "10", "11", "12")

    for partition in range(PARTITIONS):
        records = [it.data for it in found if it.data["partition"] == partition]
        expected = [(at, str(PARTITIONS * at + partition + 1)) for at in range(4)]
        assert expected == [(it["offset"], it["value"]) for it in records]


def test_a_stream_without_records_can_be_continued(brokers: list[HttpClient], topic: str) -> None:
    """
    The first id comes at once, so that a client that loses its connection before the first record misses none.
    """
    path = f"/v1/topics/{topic}/stream"
    with streamed(brokers[0], path) as response:
        first = response.readline().decode()
    produce(brokers[0], topic, "a")

    with streamed(brokers[1], path, Last_Event_ID=first.removeprefix("id: ").strip()) as response:
        assert "a" == next(events(response)).data["value"]


def test_a_stream_does_not_go_on_in_a_later_topic_of_the_same_name(brokers: list[HttpClient], topic: str) -> None:
    """
    It has other records at the offsets in the last id: 410, and the client begins anew.
    """
    path = f"/v1/topics/{topic}/stream?from=earliest"
    produce(brokers[0], topic, "of the first topic")
    with streamed(brokers[0], path) as response:
        last_id = next(events(response)).id or ""
    former = id_of(brokers[0], topic)
    assert 204 == brokers[0].send("DELETE", f"/v1/topics/{topic}").status
    for client in brokers:
        wait_for(lambda client=client: 404 == client.send("GET", f"/v1/topics/{topic}").status, "deleted")
    assert 404 == brokers[1].send("GET", path, Last_Event_ID=last_id).status
    assert 201 == brokers[0].send("POST", "/v1/topics", {"name": topic, "partitions": PARTITIONS}).status
    wait_until_known(brokers, topic)
    produce(brokers[0], topic, "of the other topic", "x", "y", "z")

    answered = brokers[1].send("GET", path, Last_Event_ID=last_id)
    assert (410, id_of(brokers[1], topic)) == (answered.status, answered.body["topic_id"])
    assert former != answered.body["topic_id"]
    with streamed(brokers[1], path, Last_Event_ID="0:1,1:1,2:1") as response:  # an id without a topic, made by a client
        assert "z" == next(events(response)).data["value"]


def test_a_start_below_the_log_start_is_refused(cluster: Cluster, brokers: list[HttpClient], topic: str) -> None:
    """
    With status 410, the partition and its log start, at any broker, for an offset and for the id of a former stream.
    """
    produce(brokers[0], topic, *(f"v{number}" for number in range(9)))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partition = TopicPartition(topic, 1, 2)
    admin.delete_records([partition])[partition].result(TIMEOUT_S)
    path = f"/v1/topics/{topic}/stream"

    for client in brokers:
        by_offset = client.send("GET", f"{path}?partition=1&offset=1")
        by_id = client.send("GET", path, Last_Event_ID="0:3,1:1,2:3")
        assert [410, 410] == [it.status for it in (by_offset, by_id)]
        assert [(1, 2), (1, 2)] == [(it.body["partition"], it.body["log_start"]) for it in (by_offset, by_id)]


def test_a_start_that_does_not_exist_is_refused(brokers: list[HttpClient], topic: str) -> None:
    """
    Before the stream begins, with the status.
    """
    path = f"/v1/topics/{topic}/stream"
    for query, headers, status in (
        ("?partition=0&offset=5", {}, 400),
        ("?offset=5", {}, 400),
        ("?partition=9", {}, 404),
        ("?from=middle", {}, 400),
        ("", {"Last_Event_ID": "0:9"}, 400),
        ("", {"Last_Event_ID": "x"}, 400),
        ("", {"Last_Event_ID": "9:0"}, 400),
        ("", {"Last_Event_ID": "0:" + "9" * 30}, 400),
    ):
        answered = brokers[0].send("GET", path + query, **headers)
        assert status == answered.status, (query, headers, answered)
