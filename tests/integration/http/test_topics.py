"""Topics over HTTP, and the document that describes the API."""

import http.client
import time
import uuid
from typing import Any

import pytest

from tests.integration.http.http_client import HttpClient, wait_for

WAIT_S = 30


@pytest.fixture
def name() -> str:
    return f"topic-{uuid.uuid4().hex[:12]}"


def described(client: HttpClient, name: str, **expected: object) -> dict[str, Any]:
    """Return the description of a topic, when a broker has heard of its last change."""
    until = time.monotonic() + WAIT_S
    while True:
        answered = client.send("GET", f"/v1/topics/{name}")
        found = answered.body if answered.status == 200 else {}
        counts = {"partitions": len(found.get("partitions", ())), "configs": found.get("configs")}
        if found and expected.items() <= counts.items():
            return found  # type: ignore[no-any-return]
        assert time.monotonic() < until, answered
        time.sleep(0.05)


def test_a_topic_is_created_changed_and_deleted(brokers: list[HttpClient], name: str) -> None:
    """
    At any broker, and the others hear of it.
    """
    first, second, third = brokers
    body = {"name": name, "partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "3600000"}}
    created = first.send("POST", "/v1/topics", body)
    assert (201, name, 2, 3) == (
        created.status,
        *(created.body[it] for it in ("name", "partitions", "replication_factor")),
    )

    found = described(second, name, partitions=2, configs={"retention.ms": "3600000"})
    assert created.body["topic_id"] == found["topic_id"]
    assert [[0, [1, 2, 3]], [1, [1, 2, 3]]] == [[it["partition"], sorted(it["replicas"])] for it in found["partitions"]]

    changed = third.send("PATCH", f"/v1/topics/{name}", {"partitions": 4, "configs": {"retention.ms": None}})
    assert (204, None) == (changed.status, changed.body)
    described(first, name, partitions=4, configs={})

    assert 204 == second.send("DELETE", f"/v1/topics/{name}").status
    wait_for(lambda: third.send("GET", f"/v1/topics/{name}").status == 404, "the topic is still known")


def test_a_topic_has_the_kind_that_is_asked_for(brokers: list[HttpClient], name: str) -> None:
    """
    The kind is a field, or a configuration.  It cannot change.
    """
    asked: list[dict[str, Any]] = [
        {},
        {"kind": "log"},
        {"kind": "timer"},
        {"configs": {"tidemill.kind": "timer"}},
        {"kind": "timer", "configs": {"tidemill.max.delay.ms": "1000"}},
    ]
    names = [f"{name}.{number}" for number in range(len(asked))]
    for one, body in zip(names, asked, strict=True):
        assert 201 == brokers[0].send("POST", "/v1/topics", {"name": one} | body).status

    shown = [described(brokers[1], one) for one in names]
    listed = brokers[1].ok("GET", f"/v1/topics?after={name}&limit={len(asked)}")["topics"]
    changed = brokers[2].send("PATCH", f"/v1/topics/{names[2]}", {"configs": {"tidemill.kind": None}})

    assert ["log", "log", "timer", "timer", "timer"] == [it["kind"] for it in shown] == [it["kind"] for it in listed]
    assert {"tidemill.kind": "timer", "tidemill.max.delay.ms": "1000"} == shown[4]["configs"]
    assert 400 == changed.status and "a topic's kind cannot change" in changed.body["detail"]


def test_topics_are_listed_page_by_page(brokers: list[HttpClient], name: str) -> None:
    for number in range(3):
        assert 201 == brokers[number].send("POST", "/v1/topics", {"name": f"{name}.{number}"}).status
        described(brokers[0], f"{name}.{number}")

    page = brokers[0].ok("GET", f"/v1/topics?after={name}&limit=2")
    rest = brokers[0].ok("GET", f"/v1/topics?after={name}.1&limit=1")

    assert [f"{name}.0", f"{name}.1"] == [it["name"] for it in page["topics"]]
    assert (True, f"{name}.2") == (page["more"], rest["topics"][0]["name"])


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "", {"name": ""}, 400),
        ("POST", "", {"name": "a b"}, 400),
        ("POST", "", {"name": "x", "partitions": 0}, 400),
        ("POST", "", {"name": "x", "replication_factor": 9}, 400),
        ("POST", "", {"name": "x", "configs": {"colour": "red"}}, 400),
        ("POST", "", {"name": "x", "extra": 1}, 400),
        ("POST", "", {"name": "x", "kind": "keyed"}, 400),
        ("POST", "", {"name": "x", "kind": "clock"}, 400),
        ("POST", "", {"name": "x", "kind": "timer", "configs": {"tidemill.kind": "timer"}}, 400),
        ("POST", "", {"name": "x", "kind": "timer", "configs": {"message.timestamp.type": "CreateTime"}}, 400),
        ("POST", "", {"name": "x", "kind": "log", "configs": {"tidemill.timer.linger.ms": "1"}}, 400),
        ("PUT", "", {"name": "x"}, 405),
        ("GET", "/missing", None, 404),
        ("DELETE", "/missing", None, 404),
        ("PATCH", "/missing", {"partitions": 2}, 404),
        ("GET", "?limit=0", None, 400),
        ("GET", "?limit=x", None, 400),
        ("GET", "?colour=red", None, 400),
        ("GET", "?limit=1&limit=2", None, 400),
    ],
)
def test_bad_requests_are_refused(brokers: list[HttpClient], method: str, path: str, body: object, status: int) -> None:
    answered = brokers[1].send(method, f"/v1/topics{path}", body)

    assert status == answered.status, answered
    assert "application/problem+json" == answered.headers["content-type"]
    assert answered.body["detail"]


def test_a_topic_that_exists_is_a_conflict(brokers: list[HttpClient], name: str) -> None:
    assert 201 == brokers[0].send("POST", "/v1/topics", {"name": name}).status
    again = brokers[1].send("POST", "/v1/topics", {"name": name})
    assert (409, "TOPIC_ALREADY_EXISTS") == (again.status, again.body["error"])
    described(brokers[2], name)
    fewer = brokers[2].send("PATCH", f"/v1/topics/{name}", {"partitions": 1, "configs": {"retention.ms": "-5"}})
    assert 400 == fewer.status, fewer


def test_a_change_that_is_refused_adds_no_partitions(brokers: list[HttpClient], name: str) -> None:
    """They could not be taken away again."""
    assert 201 == brokers[0].send("POST", "/v1/topics", {"name": name, "partitions": 2}).status
    described(brokers[1], name, partitions=2)

    refused = brokers[1].send("PATCH", f"/v1/topics/{name}", {"partitions": 3, "configs": {"no.such.key": "1"}})
    changed = brokers[1].send("PATCH", f"/v1/topics/{name}", {"configs": {"retention.ms": "3600000"}})

    assert (400, 204) == (refused.status, changed.status)
    assert 2 == len(described(brokers[1], name, configs={"retention.ms": "3600000"})["partitions"])


def test_the_api_describes_itself(brokers: list[HttpClient]) -> None:
    """
    Every reference in the document leads to a schema, and every operation has a name of its own.
    """
    document = brokers[0].ok("GET", "/openapi.json")

    assert "3.1.0" == document["openapi"]
    operations = [it for path in document["paths"].values() for it in path.values()]
    names = [it["operationId"] for it in operations]
    assert "queues_receive" in names and len(names) == len(set(names))
    references: set[str] = set()
    pending: list[Any] = [document]
    while pending:
        match pending.pop():
            case dict(one):
                references |= {one["$ref"]} if "$ref" in one else set()
                pending += one.values()
            case list(several):
                pending += several
    assert {f"#/components/schemas/{it}" for it in document["components"]["schemas"]} >= references


def test_the_api_is_shown_to_people(brokers: list[HttpClient]) -> None:
    """
    The page cannot be shown by another site.
    """
    connection = http.client.HTTPConnection(brokers[1].address, timeout=WAIT_S)
    connection.request("GET", "/docs")
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()

    assert (200, "text/html; charset=utf-8") == (response.status, response.headers["content-type"])
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
    assert "/<wbr>v1/<wbr>topics" in text
    refused = brokers[1].send("GET", "/docs", Host="rebound.example")
    assert (403, 404) == (refused.status, brokers[1].send("GET", "/docs/missing").status)
