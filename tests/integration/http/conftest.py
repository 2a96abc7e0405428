"""A cluster of three brokers for the tests over HTTP."""

from collections.abc import Iterator

import pytest

from tests.integration.cli.dev_cluster import Cluster, running_cluster
from tests.integration.http.http_client import HttpClient
from tests.integration.http.restarts import Restarts


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("http") / "data", 3) as found:
        yield found
    assert "Traceback" not in found.stderr.read_text()


@pytest.fixture(scope="session")
def restarts(cluster: Cluster) -> Iterator[Restarts]:
    with Restarts() as stack:
        yield stack


@pytest.fixture(scope="session")
def brokers(cluster: Cluster) -> list[HttpClient]:
    return [HttpClient(broker["http"]) for broker in cluster.brokers]
