"""Keeps producers for later writes with the same options.

Spark uses a Python worker for many tasks.  Each producer id that a worker obtains stays in the brokers' memory for a
day, so a worker reuses its producers together with their connections.
"""

import atexit
from typing import Final, NamedTuple

from tidemill.client.batch_producer import BatchProducer
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.client.producer_settings import ProducerSettings
from tidemill.columnar.sink_options import SinkOptions

_KEPT_MAX: Final = 4  # kept producers; if there are more, the least recently used one is closed


class PooledProducer(NamedTuple):
    """A producer and its cluster, for the exclusive use of one writer until it gives them back."""

    cluster: ClusterMetadata
    producer: BatchProducer

    def close(self) -> None:
        self.producer.close()
        self.cluster.close()


_kept: dict[tuple[ConnectionSettings, ProducerSettings], PooledProducer] = {}


def take(options: SinkOptions) -> PooledProducer:
    """Return a producer for these options.  No connection is opened before its first use."""
    kept = _kept.pop((options.connection, options.producer), None)
    if kept is not None:
        return kept
    cluster = ClusterMetadata(options.connection)
    return PooledProducer(cluster, BatchProducer(cluster, options.producer))


def give_back(options: SinkOptions, pooled: PooledProducer) -> None:
    """Keep the producer for a later write, unless a call has failed or batches are not acknowledged yet."""
    key = (options.connection, options.producer)
    if not pooled.producer.is_reusable or key in _kept:
        pooled.close()
        return
    if len(_kept) >= _KEPT_MAX:
        _kept.pop(next(iter(_kept))).close()
    _kept[key] = pooled  # The newest key is the last, so the dictionary is ordered by last use.


@atexit.register
def close_all() -> None:
    """Close the producers that are kept."""
    while _kept:
        _kept.popitem()[1].close()
