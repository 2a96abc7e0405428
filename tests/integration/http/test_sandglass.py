"""Sandglass's paths, on a cluster of three brokers."""

import http.client
import json
import uuid
from base64 import b64decode, b64encode
from typing import Any

import pytest

from tests.integration.http.http_client import TIMEOUT_S, HttpClient, wait_for, wait_until_known


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def lines(client: HttpClient, path: str) -> list[Any]:
    """Return the results of a stream."""
    connection = http.client.HTTPConnection(client.address, timeout=TIMEOUT_S)
    connection.request("GET", f"/sandglass/topics/{path}")
    response = connection.getresponse()
    text = response.read()
    connection.close()
    assert (200, "application/json") == (response.status, response.headers["content-type"]), text
    return [json.loads(line)["result"] for line in text.splitlines()]


@pytest.fixture
def topic(brokers: list[HttpClient]) -> str:
    name = f"sand-{uuid.uuid4().hex[:8]}"
    body = {"name": name, "numPartitions": 2, "replicationFactor": 3}
    assert {"success": True} == brokers[0].ok("POST", "/sandglass/topics", body)
    wait_until_known(brokers, name)
    return name


def test_each_path_works_at_any_broker(brokers: list[HttpClient], topic: str) -> None:
    """
    A message's offset, as it was received, acknowledges it; what producers get names no message that can be received.
    """
    first, second, third = brokers
    folder = "/sandglass/topics"
    assert {"name": topic, "partitions": ["0", "1"]} == second.ok("GET", f"{folder}/{topic}")

    anywhere = {"messages": [{"value": base64(b"\xff"), "consumeIn": "0s"}]}
    assert 1 == len(third.ok("POST", f"{folder}/{topic}", anywhere)["offsets"])
    messages = [{"key": base64(b"k"), "value": base64(value)} for value in (b"a", b"b", b"c", b"d")]
    offsets = first.ok("POST", f"{folder}/{topic}/1", {"messages": messages})["offsets"]
    assert 4 == len(set(offsets))

    everything: list[Any] = []

    def is_delivered() -> bool:
        everything[:] = [it["value"] for number in range(2) for it in lines(third, f"{topic}/{number}")]
        return len(everything) == 5

    wait_for(is_delivered, "the messages were not delivered")
    read = lines(second, f"{topic}/1")[-4:]
    arrivals, offsets = offsets, [it["offset"] for it in read]
    indexes = [int.from_bytes(b64decode(it)[6:]) for it in offsets]
    assert [str(it) for it in range(indexes[0], indexes[0] + 4)] == [it["index"] for it in read]
    assert [base64(it) for it in (b"a", b"b", b"c", b"d")] == [it["value"] for it in read]
    assert base64(b"k") == read[0]["key"] and read[0]["producedAt"].endswith("Z")
    assert {base64(it) for it in (b"\xff", b"a", b"b", b"c", b"d")} == set(everything)

    group = f"g-{topic}"
    received = lines(third, f"{topic}/1/{group}/worker-1")
    assert read == received[-4:]
    assert [] == lines(first, f"{topic}/1/{group}/worker-2")
    configs = first.ok("GET", f"/v1/groups/{group}")["configs"]
    assert ("5", "earliest", "linear") == (
        configs["share.delivery.count.limit"],
        configs["share.auto.offset.reset"],
        json.loads(configs["tidemill.share.backoff"])["kind"],
    )
    refused = first.send("POST", f"{folder}/ack/{topic}/1/{group}/worker-1", {"offset": arrivals[0]})
    assert (400, 3) == (refused.status, refused.body["code"])
    body = {"offset": offsets[0]}
    assert {"success": True} == second.ok("POST", f"{folder}/ack/{topic}/1/{group}/worker-1", body)
    assert {"success": True} == third.ok("POST", f"{folder}/ack/{topic}/1/{group}/worker-1", body)
    refused = first.send("POST", f"{folder}/ack/{topic}/1/{group}/worker-2", {"offsets": offsets[:2]})
    assert (412, 9) == (refused.status, refused.body["code"])
    assert {"success": True} == first.ok("POST", f"{folder}/commit/{topic}/1/{group}/worker-1", {"offset": offsets[2]})
    queue = second.ok("GET", f"/v1/queues/{topic}/{group}")["partitions"][1]
    assert (indexes[3], 1) == (queue["start"], queue["locked"])
    refused = first.send("POST", f"{folder}/commit/{topic}/1/{group}/worker-2", {"offset": offsets[3]})
    assert (412, 9) == (refused.status, refused.body["code"])


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "named"),
    [
        ("POST", "", {"name": "x", "kind": 1}, 400, 3, "kind=1: keyed topics are not available"),
        ("POST", "", {"name": "x", "kind": "KVKind"}, 400, 3, "kind=KVKind: keyed topics are not available"),
        ("POST", "", {"name": "{topic}"}, 409, 6, "{topic}"),
        ("POST", "", {"name": "x", "colour": "red"}, 400, 3, "colour"),
        ("GET", "/missing", None, 404, 5, "missing"),
        ("POST", "/{topic}/9", {"messages": [{}]}, 404, 5, "no partition 9"),
        ("POST", "/{topic}", {"messages": []}, 400, 3, "messages"),
        ("POST", "/{topic}", {"messages": [{}, {"consumeIn": "soon"}]}, 400, 3, "messages[1].consumeIn=soon"),
        ("POST", "/{topic}", {"messages": [{"consumeIn": 5}]}, 400, 3, "consumeIn=5: it is no duration; write"),
        ("POST", "/{topic}", {"messages": [{"clusteringKey": "eA=="}]}, 400, 3, "clusteringKey"),
        ("POST", "/{topic}", {"messages": [{"value": "!"}]}, 400, 3, "messages[0]: value: it is not base64"),
        (
            "POST",
            "/{topic}",
            {"messages": [{"consumeIn": "999999999999s"}]},
            400,
            3,
            "messages[0].consumeIn=999999999999s: the topic delays messages only until the year 9999; write a shorter",
        ),
        ("GET", "/{topic}/9/g/c", None, 404, 5, "no partition 9"),
        ("POST", "/ack/{topic}/0/g/c", {}, 400, 3, "offset"),
        ("POST", "/commit/{topic}/0/g/c", {"offset": "AAAA"}, 400, 3, "AAAA"),
    ],
)
def test_bad_requests_are_refused(
    brokers: list[HttpClient], topic: str, method: str, path: str, body: Any, status: int, code: int, named: str
) -> None:
    """
    With Sandglass's fields.
    """
    if body is not None and "name" in body:
        body = {**body, "name": body["name"].format(topic=topic)}

    answered = brokers[1].send(method, f"/sandglass/topics{path.format(topic=topic)}", body)

    assert (status, code) == (answered.status, answered.body.get("code")), answered
    assert named.format(topic=topic) in answered.body["error"]
    assert answered.body["error"] == answered.body["message"]


@pytest.mark.parametrize("more", [{}, {"kind": 0}, {"kind": "0"}, {"kind": "TimerKind"}])
def test_a_topic_is_a_timer_topic(brokers: list[HttpClient], more: dict[str, Any]) -> None:
    """
    Sandglass's kind 0, which is the default.
    """
    name = f"sand-{uuid.uuid4().hex[:8]}"

    assert {"success": True} == brokers[0].ok("POST", "/sandglass/topics", {"name": name, **more})

    wait_until_known(brokers, name)
    assert "timer" == brokers[0].ok("GET", f"/v1/topics/{name}")["kind"]


def test_a_delay_needs_a_timer_topic(brokers: list[HttpClient]) -> None:
    """
    A topic that was created by other means may be of another kind.
    """
    name = f"sand-{uuid.uuid4().hex[:8]}"
    assert 201 == brokers[0].send("POST", "/v1/topics", {"name": name, "partitions": 1}).status
    wait_until_known(brokers, name)

    refused = brokers[1].send("POST", f"/sandglass/topics/{name}", {"messages": [{}, {"consumeIn": "1.5s"}]})
    taken = brokers[1].send("POST", f"/sandglass/topics/{name}", {"messages": [{"consumeIn": "0s"}]})

    assert (400, 3, 200) == (refused.status, refused.body["code"], taken.status)
    assert "messages[1].consumeIn=1.5s" in refused.body["error"] and "kind=0" in refused.body["error"]


def test_a_delay_that_is_too_long_for_the_topic_is_named(brokers: list[HttpClient]) -> None:
    """By the field that the client has written, and not by a header that it does not know."""
    name, limit = f"sand-{uuid.uuid4().hex[:8]}", {"tidemill.max.delay.ms": "60000"}
    body = {"name": name, "kind": "timer", "partitions": 1, "configs": limit}
    assert 201 == brokers[0].send("POST", "/v1/topics", body).status
    wait_until_known(brokers, name)

    refused = brokers[1].send("POST", f"/sandglass/topics/{name}", {"messages": [{}, {"consumeIn": "60.001s"}]})
    taken = brokers[1].send("POST", f"/sandglass/topics/{name}", {"messages": [{"consumeIn": "60s"}]})

    said = "messages[1].consumeIn=60.001s: the topic delays messages by no more than tidemill.max.delay.ms=60000; "
    assert (400, 3, 200) == (refused.status, refused.body["code"], taken.status)
    assert refused.body["error"] == f"{said}write a shorter duration"


def test_clients_are_served_as_those_of_v1(brokers: list[HttpClient], topic: str) -> None:
    """
    By their Host, their Origin and the type of their bodies.
    """
    path, body = f"/sandglass/topics/{topic}", {"messages": [{}]}

    assert 403 == brokers[0].send("GET", path, Host="rebound.example").status
    assert 403 == brokers[0].send("POST", path, body, Origin="http://other.example").status
    assert 415 == brokers[0].send("POST", path, body, Content_Type="text/plain").status
