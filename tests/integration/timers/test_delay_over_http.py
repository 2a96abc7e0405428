"""Records that were delayed over HTTP are delivered when they are due, on a cluster of three brokers."""

import json
import time
import uuid
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.http.http_client import HttpClient, wait_for, wait_until_known


@pytest.fixture
def topic(brokers: list[HttpClient]) -> str:
    name = f"timers-{uuid.uuid4().hex[:12]}"
    body = {"name": name, "kind": "timer", "partitions": 1, "replication_factor": 3}
    assert 201 == brokers[0].send("POST", "/v1/topics", body).status
    wait_until_known(brokers, name)
    return name


def now_ms() -> int:
    """Return the time of this machine, which is that of its brokers."""
    return time.time_ns() // 1_000_000


def delivered(client: HttpClient, topic: str, count: int) -> list[dict[str, Any]]:
    """Return the first records of a topic when there are so many, each with the time at which it was seen first."""
    found: list[dict[str, Any]] = []

    def are_there() -> bool:
        records = client.ok("GET", f"/v1/topics/{topic}/partitions/0/records")["records"]
        found.extend(it | {"seen_ms": now_ms()} for it in records[len(found) :])
        return len(found) >= count

    wait_for(are_there, f"there are fewer than {count} records in {topic}")
    return found


def header(record: dict[str, Any], name: str) -> Any:
    return dict(record["headers"]).get(name)


def test_records_are_delivered_in_the_order_of_their_due_times(brokers: list[HttpClient], topic: str) -> None:
    """
    Each is there when it is due, and no millisecond earlier, whichever field says so.  A delay counts from the append.
    """
    began_ms = now_ms()
    at = datetime.fromtimestamp((began_ms + 2_000) / 1_000, UTC).isoformat()
    records = [
        {"value": "4 s", "delay": "4s"},
        {"value": "at 3 s", "at": began_ms + 3_000},
        {"value": "at 2 s", "at": at},
        {"value": "1 s", "delay": 1_000},
        {"value": "now", "headers": [["mine", "kept"]]},
        {"value": "past", "at": began_ms - 60_000},
    ]

    written = brokers[0].ok("POST", f"/v1/topics/{topic}/records", {"records": records})["records"]
    written_ms = now_ms()
    found = delivered(brokers[1], topic, len(records))

    assert [*range(len(records))] == [it["offset"] for it in written] == [it["offset"] for it in found]
    assert {"past", "now"} == {it["value"] for it in found[:2]}
    delayed = [(int(header(it, "tidemill-deliver-at")), it) for it in found[2:]]
    due_ms = {it["value"]: due for due, it in delayed}
    assert sorted(due_ms.values()) == [*due_ms.values()]
    assert all(due <= it["timestamp"] <= it["seen_ms"] for due, it in delayed), found
    assert began_ms + 1_000 <= due_ms["1 s"] <= written_ms + 1_000
    assert began_ms + 4_000 <= due_ms["4 s"] <= written_ms + 4_000
    assert (began_ms + 2_000, began_ms + 3_000) == (due_ms["at 2 s"], due_ms["at 3 s"])
    assert {"kept", None} == {header(it, "mine") for it in found[:2]}
    arrivals = {it["value"]: int(header(it, "tidemill-arrival")) for it in found}
    assert [arrivals[it["value"]] for it in records] == [it["offset"] for it in written]


def test_lines_are_delivered_when_they_are_due(brokers: list[HttpClient], topic: str) -> None:
    """
    The fields of a line are those of a record.
    """
    began_ms = now_ms()
    lines = [{"value": str(number), "delay": 2_000 - number * 100} for number in range(20)]
    body = b"".join(json.dumps(it).encode() + b"\n" for it in lines)

    status, _, _ = brokers[2].raw("POST", f"/v1/topics/{topic}/records", body, Content_Type="application/x-ndjson")
    found = delivered(brokers[0], topic, len(lines))

    assert 200 == status
    assert [str(number) for number in reversed(range(20))] == [it["value"] for it in found]
    assert all(began_ms + 2_000 - int(it["value"]) * 100 <= it["timestamp"] for it in found)


def test_a_value_as_bytes_is_delivered_when_it_is_due(brokers: list[HttpClient], topic: str) -> None:
    """
    Its delay is in the query; its headers stay.
    """
    began_ms = now_ms()

    status, _, _ = brokers[0].raw(
        "POST",
        f"/v1/topics/{topic}/records?delay=1500ms&key=k",
        b"bytes",
        Content_Type="application/octet-stream",
        Tidemill_Header="mine=kept",
    )
    (found,) = delivered(brokers[1], topic, 1)

    assert (200, "bytes", "k", "kept") == (status, found["value"], found["key"], header(found, "mine"))
    assert began_ms + 1_500 <= found["timestamp"] <= found["seen_ms"]


def test_a_later_record_of_the_same_timer_replaces_the_one_that_waits(brokers: list[HttpClient], topic: str) -> None:
    """
    The first one does not wait any more; another timer is not touched.
    """
    brokers[1].ok("POST", f"/v1/topics/{topic}/records", {"records": [{"value": "other", "delay": "3h"}]})
    for value, delay in (("first", "1h"), ("second", "1s")):
        body = {"records": [{"key": "k", "value": value, "delay": delay, "timer_id": "reminder"}]}
        brokers[0].ok("POST", f"/v1/topics/{topic}/records", body)

    found = delivered(brokers[2], topic, 1)
    waiting = brokers[2].ok("GET", f"/v1/topics/{topic}/timers?values=true")["records"]

    assert ["second"] == [it["value"] for it in found]
    assert ["other"] == [it["value"] for it in waiting]


def test_a_delay_that_is_too_long_is_refused(brokers: list[HttpClient], topic: str) -> None:
    """
    The leader refuses times, which it judges by its own clock, and the broker that is asked refuses delays.
    """
    configs = {"tidemill.max.delay.ms": "60000"}
    assert 204 == brokers[0].send("PATCH", f"/v1/topics/{topic}", {"configs": configs}).status
    wait_for(
        lambda: all(it.ok("GET", f"/v1/topics/{topic}")["configs"].items() >= configs.items() for it in brokers),
        "a broker has not heard of the change",
    )

    for record in ({"at": now_ms() + 3_600_000}, {"delay": "1h"}):
        refused = brokers[1].send("POST", f"/v1/topics/{topic}/records", {"records": [record]})
        assert 400 == refused.status and "tidemill.max.delay.ms=60000" in refused.body["detail"], refused


def test_messages_of_sandglass_are_received_when_they_are_due(brokers: list[HttpClient]) -> None:
    """
    A consumer receives none before, and acknowledges each with the offset that it has received.
    """
    name, folder = f"sand-{uuid.uuid4().hex[:8]}", "/sandglass/topics"
    assert {"success": True} == brokers[0].ok("POST", folder, {"name": name, "kind": 0, "numPartitions": 1})
    wait_until_known(brokers, name)
    began_ms = now_ms()
    messages = [{"value": b64encode(it).decode(), "consumeIn": f"{it.decode()}s"} for it in (b"2", b"1.5", b"0")]
    brokers[0].ok("POST", f"{folder}/{name}", {"messages": messages})
    received: list[dict[str, Any]] = []

    def are_received() -> bool:
        status, text, _ = brokers[1].raw("GET", f"{folder}/{name}/0/g-{name}/worker")
        assert 200 == status, text
        received.extend(json.loads(line)["result"] | {"seen_ms": now_ms()} for line in text.splitlines())
        return len(received) >= 3

    wait_for(are_received, "the messages were not received")

    assert [b64encode(it).decode() for it in (b"0", b"1.5", b"2")] == [it["value"] for it in received]
    assert all(began_ms + due_ms <= it["seen_ms"] for due_ms, it in zip((0, 1_500, 2_000), received, strict=True)), (
        received
    )
    body = {"offsets": [it["offset"] for it in received]}
    assert {"success": True} == brokers[2].ok("POST", f"{folder}/ack/{name}/0/g-{name}/worker", body)
