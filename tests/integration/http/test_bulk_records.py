"""Records produced as lines and as plain bytes, and values read as bytes."""

import base64
import json
import os
import signal
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.cli.dev_cluster import Cluster, started_again
from tests.integration.http.http_client import Answered, HttpClient, wait_until_known

PARTITIONS = 3
LINES = 5_000


@pytest.fixture
def topic(brokers: list[HttpClient]) -> str:
    name = f"bulk-{uuid.uuid4().hex[:12]}"
    body = {"name": name, "partitions": PARTITIONS, "replication_factor": 3}
    assert 201 == brokers[0].send("POST", "/v1/topics", body).status
    wait_until_known(brokers, name)
    return name


def records_in(cluster: Cluster, topic: str, count: int) -> list[Any]:
    """Return so many records in the order of partitions and offsets."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[Any] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None and message.error() is None, f"only {len(found)} records"
        found.append(message)
    consumer.close()
    return sorted(found, key=lambda it: (it.partition(), it.offset()))


def send_lines(client: HttpClient, topic: str, body: bytes | Iterable[bytes]) -> Answered:
    return client.send("POST", f"/v1/topics/{topic}/records", body, Content_Type="application/x-ndjson")


def send_value(client: HttpClient, topic: str, query: str, value: bytes, **headers: str) -> Answered:
    path = f"/v1/topics/{topic}/records{query}"
    return client.send("POST", path, value, Content_Type="application/octet-stream", **headers)


def places_of(written: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
    return [(partition, first + at) for partition, first, count in written for at in range(count)]


def test_lines_with_keys_go_where_java_sends_them(cluster: Cluster, brokers: list[HttpClient], topic: str) -> None:
    """
    From one broker to the leaders of three partitions, each line to the place that the response says, in order.
    """
    keys = [f"key-{number % 50}" for number in range(LINES)]
    body = b"".join(json.dumps({"key": key, "value": str(at)}).encode() + b"\n" for at, key in enumerate(keys))

    answered = send_lines(brokers[0], topic, iter([body[:70_001], body[70_001:]]))

    assert (200, LINES) == (answered.status, answered.body["records"]), answered
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
    for key in sorted(set(keys)):
        producer.produce(topic, "kafka", key)
    assert not producer.flush(30)
    found = records_in(cluster, topic, LINES + 50)
    by_way: dict[bool, dict[bytes, set[int]]] = {True: {}, False: {}}
    for it in found:
        by_way[it.value() == b"kafka"].setdefault(it.key(), set()).add(it.partition())
    assert by_way[True] == by_way[False] and 50 == len(by_way[True])
    values = {(it.partition(), it.offset()): it.value() for it in found}
    assert [str(at).encode() for at in range(LINES)] == [values[place] for place in places_of(answered.body["written"])]
    for number in range(PARTITIONS):
        listed = [int(it.value()) for it in found if it.partition() == number and it.value() != b"kafka"]
        assert sorted(listed) == listed


def test_a_bad_line_keeps_what_came_before(cluster: Cluster, brokers: list[HttpClient], topic: str) -> None:
    """
    The client learns it even if it sends everything before it reads the response.
    """
    good = b'{"value": "x", "partition": 1}\n'
    answered = send_lines(brokers[1], topic, good * 1_000 + b"\n{}}\n" + good * 100_000)

    assert (400, 1_002, [[1, 0, 1_000]]) == (answered.status, answered.body["line"], answered.body["written"])
    assert "line 1002: JSON is malformed" in answered.body["detail"]
    assert "application/problem+json" == answered.headers["content-type"]
    assert 1_000 == brokers[2].ok("GET", f"/v1/topics/{topic}/partitions/1/records")["end"]
    assert 404 == send_lines(brokers[1], "missing", good * 100_000).status


def test_lines_outlive_their_leader(
    cluster: Cluster, brokers: list[HttpClient], topic: str, restarts: ExitStack
) -> None:
    """
    A leader dies while lines for its partition arrive: they go to the next leader, or the response says which do not.
    """
    victim = brokers[0].ok("GET", f"/v1/topics/{topic}")["partitions"][0]["leader"]
    broker = cluster.brokers[victim - 1]

    def parts() -> Iterator[bytes]:
        for number in range(60):
            if number == 20:
                os.kill(broker["pid"], signal.SIGKILL)
                restarts.enter_context(started_again(broker))
            yield b"".join(b'{"value": "%d", "partition": 0}\n' % (number * 100 + one) for one in range(100))

    answered = send_lines(brokers[victim % 3], topic, parts())
    wait_until_known(brokers, topic)

    written = [it for it in answered.body["written"] if it[0] is not None]
    assert 200 == answered.status or "REQUEST_TIMED_OUT" == answered.body["error"], answered
    values = {it.offset(): it.value() for it in records_in(cluster, topic, sum(it[2] for it in written))}
    listed = [values.get(offset) for _, offset in places_of(written)]
    assert [str(one).encode() for one in range(len(listed))] == listed


@pytest.mark.parametrize("value", [b"", os.urandom(500_000), b"\xff\x00\n"])
def test_bytes_return_as_they_were_sent(cluster: Cluster, brokers: list[HttpClient], topic: str, value: bytes) -> None:
    written = send_value(brokers[0], topic, "?partition=2&timestamp=1700000000000", value)

    assert (200, {"records": [{"partition": 2, "offset": 0}]}) == (written.status, written.body)
    (found,) = records_in(cluster, topic, 1)
    assert (value, None, 1_700_000_000_000) == (found.value(), found.key(), found.timestamp()[1])


def test_bytes_have_keys_and_headers(cluster: Cluster, brokers: list[HttpClient], topic: str) -> None:
    """
    Names keep their case and their order, and may repeat; what is not ASCII is percent-encoded.
    """
    header = "Trace=a, trace=b%2Cc, %C3%A9=%FF%00, none, empty="
    first = send_value(brokers[0], topic, "?key=%C3%A9", b"x", Tidemill_Header=header)
    key = base64.urlsafe_b64encode(b"\xff\x00").decode()
    second = send_value(brokers[1], topic, f"?key_base64={key.replace('_', '%2F')}", b"y")

    assert (200, 200) == (first.status, second.status), (first, second)
    by_value = {it.value(): it for it in records_in(cluster, topic, 2)}
    expected = [("Trace", b"a"), ("trace", b"b,c"), ("é", b"\xff\x00"), ("none", None), ("empty", b"")]
    assert ("é".encode(), expected) == (by_value[b"x"].key(), by_value[b"x"].headers())
    assert b"\xff\x00" == by_value[b"y"].key()


@pytest.mark.parametrize(
    ("query", "header", "says"),
    [
        ("?key=a&key_base64=YQ==", "", "key and key_base64: give one of them"),
        ("?key_base64=!", "", "key: it is not base64"),
        ("?partition=3", "", "no partition 3, only 0 to 2"),
        ("?partition=x", "", "partition"),
        ("?color=1", "", "color"),
        ("", "a=%zz", "Tidemill-Header: a=%zz"),
        ("", "a=\xe9", "Tidemill-Header: a="),
        ("", "%FF=1", "the name is not UTF-8"),
    ],
)
def test_bad_parameters_of_bytes_are_refused(
    brokers: list[HttpClient], topic: str, query: str, header: str, says: str
) -> None:
    answered = send_value(brokers[0], topic, query, b"x", Tidemill_Header=header)
    assert 400 == answered.status and says in answered.body["detail"], answered


def test_a_browser_does_not_render_a_value(brokers: list[HttpClient], topic: str) -> None:
    """
    Values are attachments of no type; a tombstone is 204, and what does not exist is 404.
    """
    folder = f"/v1/topics/{topic}/partitions/0/records"
    send_value(brokers[0], topic, "?partition=0", b"<script>\xff")
    brokers[0].ok("POST", f"/v1/topics/{topic}/records", {"records": [{"key": "gone", "partition": 0}]})

    status, body, headers = brokers[1].raw("GET", f"{folder}/0/value")

    assert (200, b"<script>\xff", "application/octet-stream") == (status, body, headers["content-type"])
    assert ("nosniff", "attachment") == (headers["x-content-type-options"], headers["content-disposition"])
    assert (204, b"") == brokers[2].raw("GET", f"{folder}/1/value")[:2]
    for missing in ("2", "99", "x", "9" * 30):
        assert 404 == brokers[0].send("GET", f"{folder}/{missing}/value").status
    assert 404 == brokers[0].send("GET", f"/v1/topics/{topic}/partitions/9/records/0/value").status


def test_a_value_below_the_log_start_is_gone(cluster: Cluster, brokers: list[HttpClient], topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for _ in range(3):
        send_value(brokers[0], topic, "?partition=0", b"x")
    (removed,) = admin.delete_records([TopicPartition(topic, 0, 2)]).values()
    removed.result(30)

    answered = brokers[0].send("GET", f"/v1/topics/{topic}/partitions/0/records/1/value")

    assert (410, 2) == (answered.status, answered.body["log_start"])
    assert b"x" == brokers[0].raw("GET", f"/v1/topics/{topic}/partitions/0/records/2/value")[1]


def test_the_document_lists_every_type_of_body(brokers: list[HttpClient]) -> None:
    operation = brokers[0].ok("GET", "/openapi.json")["paths"]["/v1/topics/{topic}/records"]["post"]

    assert ["application/json", "application/x-ndjson", "application/octet-stream"] == [
        *operation["requestBody"]["content"]
    ]
    answers = operation["responses"]["200"]["content"]["application/json"]["schema"]["anyOf"]
    assert ["Produced", "WrittenLines"] == [it["$ref"].rpartition("/")[2] for it in answers]
    names = {it["name"] for it in operation["parameters"]}
    of_record = {"topic", "key", "key_base64", "partition", "timestamp"}
    assert of_record | {"delay", "at", "timer_id", "schedule", "timezone", "missed"} == names
