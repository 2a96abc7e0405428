from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.cluster_processes import ClusterProcesses


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """
    Run one cluster, shared by all tests that need no special configuration, because starting a cluster takes longer
    than most faults.
    """
    directory: Path = tmp_path_factory.mktemp("cluster")
    with ClusterProcesses(directory, settings={"leader.imbalance.check.interval.seconds": 1}) as cluster:
        cluster.start_all()
        yield cluster


@pytest.fixture
def cluster(running_cluster: ClusterProcesses) -> ClusterProcesses:
    """
    Restore the shared cluster, whatever state the previous test has left it in, and return it with its three brokers
    running.
    """
    running_cluster.recover()
    return running_cluster
