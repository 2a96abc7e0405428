"""A cluster of three brokers for the tests of timer topics, and topics with records that wait."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.cli.dev_cluster import Cluster, running_cluster
from tests.integration.http.http_client import HttpClient, wait_until_known

PARTITIONS = 3
HOUR_MS = 3_600_000


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("timers") / "data", 3) as found:
        yield found
    assert "Traceback" not in found.stderr.read_text()


@pytest.fixture(scope="session")
def brokers(cluster: Cluster) -> list[HttpClient]:
    return [HttpClient(broker["http"]) for broker in cluster.brokers]


class TimerTopic:
    """A timer topic with a leader on every broker."""

    def __init__(self, brokers: list[HttpClient], partitions: int = PARTITIONS) -> None:
        self.name = f"timers-{uuid.uuid4().hex[:12]}"
        self.brokers = brokers
        self.partitions = partitions
        body = {"name": self.name, "kind": "timer", "partitions": partitions, "replication_factor": 3}
        assert 201 == brokers[0].send("POST", "/v1/topics", body).status
        wait_until_known(brokers, self.name)
        self.base_ms = time.time_ns() // 1_000_000

    @property
    def path(self) -> str:
        return f"/v1/topics/{self.name}/timers"

    def produce(self, *records: dict[str, Any]) -> list[dict[str, int]]:
        body = {"records": [*records]}
        found: list[dict[str, int]] = self.brokers[0].ok("POST", f"/v1/topics/{self.name}/records", body)["records"]
        return found

    def wait_for_hours(self, count: int) -> list[dict[str, int]]:
        """Produce records `v0` and so on, which are due 1, 2, … hours from the base time, in turn in all partitions."""
        return self.produce(
            *(
                {
                    "value": f"v{it}",
                    "key": f"k{it}",
                    "at": self.base_ms + (it + 1) * HOUR_MS,
                    "partition": it % self.partitions,
                    "timer_id": f"t{it}",
                }
                for it in range(count)
            )
        )

    def listed(self, at: int = 0, query: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.brokers[at].ok("GET", f"{self.path}?{query}")["records"]
        return found

    def waiting(self, at: int = 0) -> int:
        found: int = self.brokers[at].ok("GET", f"{self.path}/stats")["waiting"]
        return found

    def hours(self, at: int = 0) -> list[float]:
        """Return when records are due, in hours from the base time."""
        return [(it["due"] - self.base_ms) / HOUR_MS for it in self.listed(at)]

    def released(self, at: int = 0) -> list[dict[str, Any]]:
        """Return all records that consumers can read."""
        paths = (f"/v1/topics/{self.name}/partitions/{it}/records?limit=1000" for it in range(self.partitions))
        return [it for path in paths for it in self.brokers[at].ok("GET", path)["records"]]


@pytest.fixture
def topic(brokers: list[HttpClient]) -> TimerTopic:
    return TimerTopic(brokers)
