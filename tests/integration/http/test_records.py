"""Records produced over HTTP, and read by a Kafka client."""

import base64
import json
import uuid
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.integration.cli.dev_cluster import Cluster
from tests.integration.http.http_client import Answered, HttpClient, wait_for, wait_until_known

PARTITIONS = 3
Read = Callable[[int], list[Any]]


@pytest.fixture
def topic(cluster: Cluster, brokers: list[HttpClient]) -> str:
    name = f"records-{uuid.uuid4().hex[:12]}"
    body = {"name": name, "partitions": PARTITIONS, "replication_factor": 3}
    assert 201 == brokers[0].send("POST", "/v1/topics", body).status
    wait_until_known(brokers, name)
    return name


@pytest.fixture
def read(cluster: Cluster, topic: str) -> Read:
    """Return a function that reads so many records of the topic, in the order of partitions and offsets."""

    def read_all(count: int) -> list[Any]:
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

    return read_all


def produce(client: HttpClient, topic: str, *records: dict[str, Any]) -> list[tuple[int, int]]:
    written = client.ok("POST", f"/v1/topics/{topic}/records", {"records": list(records)})["records"]
    return [(it["partition"], it["offset"]) for it in written]


def test_records_arrive_as_they_were_sent(brokers: list[HttpClient], topic: str, read: Read) -> None:
    """
    Text, base64, JSON and none; headers may repeat.
    """
    encoded = {"base64": base64.b64encode(b"\x00\xff").decode()}
    headers = [["trace", "a"], ["trace", encoded], ["none", None]]
    written = produce(
        brokers[0],
        topic,
        {"value": "text", "key": "", "headers": headers, "partition": 1, "timestamp": 1_700_000_000_000},
        {"value": encoded, "key": encoded, "partition": 1},
        {"value": {"json": {"a": [1, None, "é"]}}, "partition": 1},
        {"value": None, "key": "gone", "partition": 1},
    )

    assert [(1, offset) for offset in range(4)] == written
    first, second, third, fourth = read(4)
    assert (b"text", b"", 1_700_000_000_000) == (first.value(), first.key(), first.timestamp()[1])
    assert [("trace", b"a"), ("trace", b"\x00\xff"), ("none", None)] == first.headers()
    assert (b"\x00\xff", b"\x00\xff") == (second.value(), second.key())
    assert {"a": [1, None, "é"]} == json.loads(third.value())
    assert (None, b"gone") == (fourth.value(), fourth.key())


def test_a_key_goes_where_java_sends_it(cluster: Cluster, brokers: list[HttpClient], topic: str, read: Read) -> None:
    """
    From any broker, to any leader; and the records of a request without keys stay together.
    """
    keys = [f"key-{number}" for number in range(30)]
    for at, client in enumerate(brokers):
        produce(client, topic, *({"key": key, "value": "http"} for key in keys[at::3]))
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2"})
    for key in keys:
        producer.produce(topic, "kafka", key)
    assert not producer.flush(30)

    found = read(60)

    by_way = [{it.key(): it.partition() for it in found if it.value() == way} for way in (b"http", b"kafka")]
    assert by_way[0] == by_way[1] and 30 == len(by_way[0])
    assert {0, 1, 2} == set(by_way[0].values())
    together = produce(brokers[2], topic, *({"value": str(number)} for number in range(10)))
    assert 1 == len({partition for partition, _ in together})


def test_a_large_request_is_divided(brokers: list[HttpClient], topic: str, read: Read) -> None:
    """
    The records keep their order.
    """
    values = [f"{number:04}" + "x" * 20_000 for number in range(40)]
    written = produce(brokers[1], topic, *({"value": value, "partition": 0} for value in values))

    assert [(0, offset) for offset in range(40)] == written
    assert [value[:4].encode() for value in values] == [it.value()[:4] for it in read(40)]


@pytest.mark.parametrize(
    ("records", "status", "says"),
    [
        ([], 400, "records"),
        ([{"value": "x", "partition": PARTITIONS}], 400, "no partition 3, only 0 to 2"),
        ([{"value": {"base64": "!"}}], 400, "records[0]: value: it is not base64"),
        ([{"value": "x"}, {"key": {"base64": "", "json": 1}}], 400, 'records[1]: key: give either "base64" or "json"'),
        ([{"value": {}}], 400, "records[0]: value"),
        ([{"value": 1}], 400, "records[0].value"),
        ([{"value": "x", "timestamp": 1 << 62}], 400, "timestamp"),
        ([{"value": "x", "color": 1}], 400, "color"),
        ([{"value": "x"}, {"delay": "5m"}], 400, "records[1]: delay=5m: the topic is of kind log"),
        ([{"at": 1_800_000_000_000}], 400, "create the topic with tidemill.kind=timer"),
        ([{"timer_id": "x"}], 400, "records[0]: timer_id=x"),
        ([{"delay": True}], 400, "records[0].delay"),
    ],
)
def test_bad_records_are_refused(
    brokers: list[HttpClient], topic: str, records: list[object], status: int, says: str
) -> None:
    answered = brokers[0].send("POST", f"/v1/topics/{topic}/records", {"records": records})
    assert status == answered.status and says in answered.body["detail"], answered


@pytest.mark.parametrize(
    ("content_type", "query", "headers", "body", "says"),
    [
        ("application/json", "", {}, {"records": [{"delay": "soon"}]}, "records[0]: delay: tidemill-delay='soon'"),
        ("application/json", "", {}, {"records": [{"at": "2027-01-31"}]}, "records[0]: at: tidemill-deliver-at="),
        ("application/json", "", {}, {"records": [{"at": 1_800_000_000}]}, "these look like seconds"),
        ("application/json", "", {}, {"records": [{"delay": "61s"}]}, "tidemill.max.delay.ms=60000"),
        ("application/json", "", {}, {"records": [{}, {"at": "9999-12-01T00:00:00Z"}]}, "records[1]: tidemill-deliver"),
        ("application/x-ndjson", "", {}, {"at": "9999-12-01T00:00:00Z"}, "line 1: tidemill-deliver-at=9999"),
        ("application/octet-stream", "?at=9999-12-01T00:00:00Z", {}, "x", "tidemill.max.delay.ms=60000 allows"),
        ("application/x-ndjson", "", {}, {"delay": 1, "at": 1_800_000_000_000}, "line 1: delay and at"),
        ("application/json", "", {}, {"records": [{"timer_id": "a", "schedule": "hourly"}]}, "records[0]: schedule: "),
        ("application/x-ndjson", "", {}, {"schedule": "every 1m"}, "line 1: schedule: tidemill-schedule needs"),
        ("application/octet-stream", "?timer_id=a&schedule=every+1m&missed=two", {}, "x", "missed"),
        ("application/octet-stream", "?timer_id=a&schedule=cron+0+8+*+*+*&timezone=Berlin", {}, "x", "no such zone"),
        ("application/octet-stream", "?delay=soon", {}, "x", "delay: tidemill-delay='soon'"),
        ("application/octet-stream", "?at=7", {}, "x", "at: tidemill-deliver-at=7"),
        ("application/octet-stream", "?delay=1s", {"Tidemill_Header": "tidemill-delay=2s"}, "x", "is there 2 times"),
    ],
)
def test_a_due_time_that_is_not_one_is_refused_by_its_field(
    brokers: list[HttpClient], content_type: str, query: str, headers: dict[str, str], body: object, says: str
) -> None:
    """
    On a timer topic, before anything is written.
    """
    name = f"timers-{uuid.uuid4().hex[:12]}"
    made = {"name": name, "kind": "timer", "partitions": 1, "configs": {"tidemill.max.delay.ms": "60000"}}
    assert 201 == brokers[0].send("POST", "/v1/topics", made).status
    wait_until_known(brokers, name)

    refused = brokers[1].send("POST", f"/v1/topics/{name}/records{query}", body, Content_Type=content_type, **headers)

    assert 400 == refused.status and says in refused.body["detail"], refused


def test_a_value_as_bytes_has_no_delay_on_another_topic(brokers: list[HttpClient], topic: str) -> None:
    """
    Nor a time, nor the name of a timer.
    """
    for parameter in ("delay=5m", "at=2027-01-31T08:00:00Z", "timer_id=x", "schedule=every+1m"):
        path = f"/v1/topics/{topic}/records?{parameter}"
        refused = brokers[0].send("POST", path, b"x", Content_Type="application/octet-stream")
        assert 400 == refused.status and "create the topic with tidemill.kind=timer" in refused.body["detail"], refused


def test_a_record_that_is_too_large_is_refused(brokers: list[HttpClient], topic: str) -> None:
    """
    At its leader; what was written to other partitions is listed.
    """
    assert 204 == brokers[0].send("PATCH", f"/v1/topics/{topic}", {"configs": {"max.message.bytes": "1000"}}).status
    body = {"records": [{"value": "small", "partition": 0}, {"value": "x" * 100_000, "partition": 1}]}

    def is_refused() -> bool:  # once the leader has heard of the change
        nonlocal answered
        answered = brokers[0].send("POST", f"/v1/topics/{topic}/records", body)
        return answered.status != 200

    answered = Answered(200, None, {})
    wait_for(is_refused, "the record was taken")
    assert (413, "MESSAGE_TOO_LARGE") == (answered.status, answered.body["error"])
    assert answered.body["detail"].startswith("records[1]: the batch has ")
    first, second = answered.body["written"]
    assert 0 == first[0] and second is None


def test_internal_topics_and_missing_ones_are_refused(brokers: list[HttpClient]) -> None:
    body = {"records": [{"value": "x"}]}
    assert 404 == brokers[0].send("POST", "/v1/topics/missing/records", body).status
    assert 403 == brokers[0].send("POST", "/v1/topics/__tidemill_metadata/records", body).status


def test_no_client_reads_the_metadata(brokers: list[HttpClient]) -> None:
    """A queue on it would write its state into the log of the controller."""
    for method, path, body in (
        ("GET", "/v1/topics/__tidemill_metadata/partitions/0/records", None),
        ("GET", "/v1/topics/__tidemill_metadata/stream", None),
        ("GET", "/sandglass/topics/__tidemill_metadata/0", None),
        ("POST", "/v1/queues/__tidemill_metadata/g/receive", {"consumer": "c"}),
    ):
        assert 403 == brokers[0].send(method, path, body).status, path
