"""The endpoints below `/v1`: parameters, permitted clients and errors."""

import asyncio
import json
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import pytest

from tidemill.http.application import Application


class Cluster:
    """A stand-in for a broker's view of its cluster, which returns the arguments with which it was called."""

    def cluster(self) -> Mapping[str, object]:
        return {"cluster_id": "a-cluster"}

    def brokers(self) -> Mapping[str, object]:
        return {"brokers": []}

    def shards(self, **asked: object) -> Mapping[str, object] | None:
        return None if asked["topic"] == "missing" else asked


class FakeBroker:
    is_live = is_ready = True

    def metrics_text(self) -> str:
        raise AssertionError("the test does not request metrics")


def answer(
    target: str,
    *,
    client: str = "127.0.0.1",
    host: str | None = "127.0.0.1:9080",
    method: str = "GET",
    reported: Callable[[], Cluster | None] = Cluster,
) -> tuple[int, str, dict[str, Any]]:
    """Send a request, and return the status, the content type and the decoded JSON object of the response."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("no body is read")

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [] if host is None else [(b"host", host.encode())],
        "client": (client, 50_000),
    }
    asyncio.run(Application(FakeBroker(), reported)(scope, receive, send))
    assert sent[0]["status"] != 503 or (b"retry-after", b"1") in sent[0]["headers"]
    return sent[0]["status"], dict(sent[0]["headers"])[b"content-type"].decode(), json.loads(sent[1]["body"])


@pytest.mark.parametrize("path", ["/v1/cluster", "/v1/brokers", "/v1/shards"])
def test_a_cluster_is_described_as_json(path: str) -> None:
    """
    A client on the same machine gets a description of the cluster as JSON.
    """
    status, content_type, _ = answer(path)

    assert (200, "application/json") == (status, content_type)


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("", {"topic": None, "leader": None, "after": -1, "limit": 100}),
        ("?topic=a.b&limit=7", {"topic": "a.b", "leader": None, "after": -1, "limit": 7}),
        ("?leader=2&after=0", {"topic": None, "leader": 2, "after": 0, "limit": 100}),
    ],
)
def test_shards_are_filtered_and_paged(query: str, asked: dict[str, object]) -> None:
    """
    Filters and page bounds are parsed and passed on to the broker as values.
    """
    status, _, told = answer(f"/v1/shards{query}")

    assert (200, asked) == (status, told)


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("/v1/shards?colour=red", "colour=red"),
        ("/v1/cluster?topic=t", "topic=t"),
        ("/v1/brokers?limit=1", "limit=1"),
        ("/v1/shards?limit=0", "limit=0"),
        ("/v1/shards?limit=1001", "limit=1001"),
        ("/v1/shards?limit=ten", "limit=ten"),
        ("/v1/shards?limit=%C2%B9", "limit="),
        ("/v1/shards?after=-2", "after=-2"),
        ("/v1/shards?leader=", "leader="),
        ("/v1/shards?topic=a&topic=b", "topic=b"),
        (f"/v1/shards?topic={'x' * 3_000}", "3006"),
    ],
)
def test_an_invalid_parameter_is_refused(target: str, named: str) -> None:
    """
    An invalid parameter gets status 400 and a detail that names the parameter and its value.
    """
    status, content_type, told = answer(target)

    assert (400, 400, "application/problem+json") == (status, told["status"], content_type)
    assert named in told["detail"]


def test_an_unknown_topic_is_not_found() -> None:
    """
    An unknown topic gets status 404, because an empty list would look like a topic that has no shards.
    """
    status, _, told = answer("/v1/shards?topic=missing")

    assert (404, True) == (status, "topic=missing" in told["detail"])


@pytest.mark.parametrize(
    ("client", "host", "status"),
    [
        ("127.0.0.1", "localhost:9080", 200),
        ("127.0.0.9", None, 200),
        ("::1", "[::1]:9080", 200),
        ("::ffff:127.0.0.1", "127.0.0.1", 200),
        ("10.0.0.7", "127.0.0.1:9080", 403),
        ("::ffff:10.0.0.7", "127.0.0.1", 403),
        ("127.0.0.1", "rebound.example:9080", 403),
        ("127.0.0.1", "10.0.0.1:9080", 403),
        ("", None, 403),
    ],
)
def test_only_clients_on_this_machine_are_served(client: str, host: str | None, status: int) -> None:
    """
    Only clients on this machine are served, because authentication is not implemented.  A check of the Host header
    protects against DNS rebinding.
    """
    told = answer("/v1/brokers", client=client, host=host)

    assert status == told[0]
    assert status == 200 or ("127.0.0.1" in told[2]["detail"] and told[1] == "application/problem+json")


@pytest.mark.parametrize("path", ["/v1/cluster", "/v1/brokers", "/v1/shards"])
def test_endpoints_are_unavailable_until_the_broker_knows_its_cluster(path: str) -> None:
    """
    The endpoints are unavailable until the broker knows its cluster, because an empty response would look like an empty
    cluster.
    """
    status, content_type, told = answer(path, reported=lambda: None)

    assert (503, 503, "application/problem+json") == (status, told["status"], content_type)
    assert path in told["detail"]
