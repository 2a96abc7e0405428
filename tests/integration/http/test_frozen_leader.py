"""A leader that is frozen: its connections stay open, and nothing comes on them."""

import os
import signal
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.cli.dev_cluster import Cluster
from tests.integration.http.http_client import Answered, HttpClient, wait_until_known

CLIENT_S: float = 20.0  # the Python client waits no longer for a response


@contextmanager
def frozen(broker: dict[str, Any]) -> Iterator[None]:
    os.kill(broker["pid"], signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker["pid"], signal.SIGCONT)


@pytest.fixture
def topic(brokers: list[HttpClient]) -> Iterator[str]:
    """Yield the name of a new topic, and delete it: with one replica, it keeps its broker from stopping."""
    name = f"frozen-{uuid.uuid4().hex[:8]}"
    yield name
    assert 204 == brokers[0].send("DELETE", f"/v1/topics/{name}").status


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_client_is_answered_before_it_gives_up(
    cluster: Cluster, brokers: list[HttpClient], topic: str, replicas: int
) -> None:
    """
    Requests that are on their way to a leader when it freezes.  A request that may have had its effect is answered with
    503, and the client is told so.  One that can be repeated goes to the next leader, if there is one.
    """
    configs = {"name": topic, "partitions": 1, "replication_factor": replicas}
    assert 201 == brokers[0].send("POST", "/v1/topics", configs).status
    wait_until_known(brokers, topic)
    leader = brokers[0].ok("GET", f"/v1/topics/{topic}")["partitions"][0]["leader"]
    client, path = brokers[leader % len(brokers)], f"/v1/topics/{topic}"

    def timed(method: str, path: str, body: object = None) -> tuple[Answered, float]:
        began_at = time.monotonic()
        return client.send(method, path, body), time.monotonic() - began_at

    def both() -> tuple[tuple[Answered, float], tuple[Answered, float]]:
        with ThreadPoolExecutor() as threads:
            reading = threads.submit(timed, "GET", f"{path}/partitions/0/records?offset=1&wait_ms=3000")
            producing = threads.submit(timed, "POST", f"{path}/records", {"records": [{"value": "a"}]})
            return producing.result(), reading.result()

    client.ok("POST", f"{path}/records", {"records": [{"value": "a"}]})
    assert [200, 200] == [answered.status for answered, _ in both()], "its connections to the leader are open"
    with frozen(cluster.brokers[leader - 1]):
        (produced, produced_s), (read, read_s) = both()
    wait_until_known(brokers, topic)

    assert (503, "REQUEST_TIMED_OUT") == (produced.status, produced.body.get("error")), produced
    assert "not known" in produced.body["detail"]
    assert "retry-after" in produced.headers
    assert (503 if replicas == 1 else 200) == read.status, read
    assert max(produced_s, read_s) < CLIENT_S


def test_a_frozen_leader_holds_up_no_messages_of_others(
    cluster: Cluster, brokers: list[HttpClient], topic: str
) -> None:
    """
    A receive waits for messages of all partitions when the leader of one of them freezes: it returns what comes to
    another one soon after.  A receipt that the frozen leader would have to take has a status within seconds.
    """
    configs = {"name": topic, "partitions": 3, "replication_factor": 1}
    assert 201 == brokers[0].send("POST", "/v1/topics", configs).status
    wait_until_known(brokers, topic)
    leaders = [it["leader"] for it in brokers[0].ok("GET", f"/v1/topics/{topic}")["partitions"]]
    gone, other = next(at for at, it in enumerate(leaders) if it != 1), leaders.index(1)
    client, queue = brokers[0], f"/v1/queues/{topic}/workers"

    def receive(wait_ms: int) -> Any:
        return client.ok("POST", f"{queue}/receive", {"consumer": "me", "wait_ms": wait_ms})["messages"]

    def produce(partition: int) -> None:
        client.ok("POST", f"/v1/topics/{topic}/records", {"records": [{"value": "a", "partition": partition}]})

    assert [] == receive(3_000), "the group begins at the end"
    produce(gone)
    (message,) = receive(20_000)
    with ThreadPoolExecutor() as threads:
        receiving = threads.submit(receive, 25_000)
        time.sleep(1)
        with frozen(cluster.brokers[leaders[gone] - 1]):
            began_at = time.monotonic()
            acknowledging = threads.submit(client.ok, "POST", f"{queue}/ack", {"receipts": [message["receipt"]]})
            time.sleep(3)
            produce(other)
            produced_at = time.monotonic()
            (found,) = receiving.result()
            received_s = time.monotonic() - produced_at
            acknowledged = acknowledging.result()
            acknowledged_s = time.monotonic() - began_at
    wait_until_known(brokers, topic)

    assert other == found["partition"]
    assert received_s < 1.7, "the frozen leader was given up before, and not only after five seconds"
    assert ["unknown"] == acknowledged["statuses"]
    assert acknowledged_s < 9, "it was given up after five seconds, and not when its link was closed after ten"
