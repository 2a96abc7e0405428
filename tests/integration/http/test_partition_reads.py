"""Records read over HTTP."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.cli.dev_cluster import Cluster
from tests.integration.http.http_client import HttpClient, wait_until_known

HOUR_MS = 3_600_000
RECORDS = 30


@pytest.fixture
def topic(cluster: Cluster, brokers: list[HttpClient]) -> str:
    """Return a topic with records of the last hours in compressed batches; its leader is one of the brokers."""
    name = f"reads-{uuid.uuid4().hex[:12]}"
    assert 201 == brokers[0].send("POST", "/v1/topics", {"name": name, "partitions": 1}).status
    wait_until_known(brokers, name)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": "zstd", "linger.ms": 50})
    for number in range(RECORDS):
        producer.produce(name, f"v{number}", b"\xff", timestamp=START_MS + number * HOUR_MS, headers=[("n", b"1")])
    assert not producer.flush(30)
    return name


START_MS = round(time.time() * 1_000) - RECORDS * HOUR_MS


def read(client: HttpClient, topic: str, query: str = "") -> Any:
    return client.ok("GET", f"/v1/topics/{topic}/partitions/0/records{query}")


@pytest.mark.parametrize("at", range(3))
def test_a_partition_is_read_page_by_page(brokers: list[HttpClient], topic: str, at: int) -> None:
    """
    From any broker, beginning at the log start, in the middle of batches.
    """
    found: list[Any] = []
    offset = ""
    while len(found) < RECORDS:
        page = read(brokers[at], topic, f"?limit=7{offset}")
        assert 0 < len(page["records"]) <= 7 and (0, RECORDS) == (page["log_start"], page["end"])
        found += page["records"]
        assert page["next_offset"] == len(found)
        offset = f"&offset={page['next_offset']}"

    assert [(n, START_MS + n * HOUR_MS, f"v{n}", {"base64": "/w=="}, [["n", "1"]]) for n in range(RECORDS)] == [
        (it["offset"], it["timestamp"], it["value"], it["key"], it["headers"]) for it in found
    ]
    assert [] == read(brokers[at], topic, f"?offset={RECORDS}")["records"]


def test_a_read_begins_at_a_time(brokers: list[HttpClient], topic: str) -> None:
    """
    With the first record that is not older; behind the last one, at the end.
    """
    page = read(brokers[1], topic, f"?time={START_MS + 4 * HOUR_MS - 1}&limit=1")
    assert ["v4"] == [it["value"] for it in page["records"]]
    assert RECORDS == read(brokers[2], topic, f"?time={START_MS + RECORDS * HOUR_MS + HOUR_MS}")["next_offset"]


@pytest.mark.parametrize("at", range(3))
def test_a_read_waits_for_records(brokers: list[HttpClient], topic: str, at: int) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(read, brokers[at], topic, f"?offset={RECORDS}&wait_ms=30000")
        brokers[0].ok("POST", f"/v1/topics/{topic}/records", {"records": [{"value": "late"}]})
        assert ["late"] == [it["value"] for it in waiting.result(60)["records"]]


def test_what_retention_has_removed_is_gone(cluster: Cluster, brokers: list[HttpClient], topic: str) -> None:
    """
    The response says where the log starts now.
    """
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partition = TopicPartition(topic, 0, 5)
    admin.delete_records([partition])[partition].result(30)

    gone = brokers[1].send("GET", f"/v1/topics/{topic}/partitions/0/records?offset=3")

    assert (410, 5) == (gone.status, gone.body["log_start"])
    page = read(brokers[1], topic, "?limit=1")
    assert (5, "v5") == (page["log_start"], page["records"][0]["value"])


@pytest.mark.parametrize(
    ("partition", "query", "status"),
    [
        ("1", "", 404),
        ("x", "", 404),
        ("-1", "", 404),
        ("0" * 50, "", 404),
        ("0", "?offset=-1", 400),
        ("0", "?offset=1000", 400),
        ("0", "?offset=1&time=1", 400),
        ("0", "?limit=1001", 400),
        ("0", "?wait_ms=30001", 400),
        ("0", f"?offset={1 << 64}", 400),
    ],
)
def test_bad_reads_are_refused(brokers: list[HttpClient], topic: str, partition: str, query: str, status: int) -> None:
    answered = brokers[0].send("GET", f"/v1/topics/{topic}/partitions/{partition}/records{query}")
    assert status == answered.status and answered.body["detail"], answered
