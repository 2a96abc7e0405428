"""Opens Tidemill's own client for a command."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidemill.cli.bootstrap import check_reachable
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import from_keys

REQUEST_TIMEOUT_MS: Final = 30_000


@contextmanager
def client_session(bootstrap: str) -> Iterator[ClusterMetadata]:
    """
    Yield the view of the cluster, without any topics yet, and close its connections at the end.

    Raise `Failed` with NO_BROKER if none of the addresses accepts connections.
    """
    check_reachable(bootstrap)
    timeouts = dict.fromkeys(("request.timeout.ms", "default.api.timeout.ms"), str(REQUEST_TIMEOUT_MS))
    cluster = ClusterMetadata(from_keys({"bootstrap.servers": bootstrap, **timeouts}))
    try:
        yield cluster
    finally:
        cluster.close()
