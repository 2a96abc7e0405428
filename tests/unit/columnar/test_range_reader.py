"""Executors read ranges that a driver has planned."""

import pytest

from tests.unit.client.test_socket_dial import refusing
from tidemill.client.failures import RetriesExhausted
from tidemill.columnar import source_options
from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.range_reader import RangeReader


def test_an_executor_waits_for_a_cluster_that_the_driver_has_reached():
    """
    An executor that has not connected yet waits for a broker as long as a call may retry, because the driver has
    already connected to the same address.
    """
    keys = {"socket.connection.setup.timeout.ms": "50", "default.api.timeout.ms": "300", "retry.backoff.ms": "5"}
    with refusing() as stopped:
        keys["bootstrap.servers"] = f"{stopped.host}:{stopped.port}"
        options = source_options.for_batch({"subscribe": "t", **{f"kafka.{key}": value for key, value in keys.items()}})

        with pytest.raises(RetriesExhausted, match="gave up after 300 ms: cannot connect to broker"):
            list(RangeReader(options, ["value"]).record_batches(OffsetRange("t", 0, 0, 1)))
