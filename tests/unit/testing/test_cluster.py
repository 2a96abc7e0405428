"""The cluster of the fixtures, without its brokers: which numbers it takes."""

from collections.abc import Callable

import pytest

from tidemill.testing.cluster import Cluster


@pytest.mark.parametrize("act", [Cluster.kill, Cluster.stop, Cluster.restart])
def test_a_broker_that_does_not_exist_is_named(act: Callable[[Cluster, int], None]) -> None:
    cluster = Cluster.__new__(Cluster)
    cluster.processes = dict.fromkeys((1, 2, 3))  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="broker 4: the cluster has the brokers 1, 2, 3"):
        act(cluster, 4)
