"""Chromium, and a cluster of three brokers that is shared by the tests of the console."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.integration.cli.dev_cluster import Cluster, running_cluster
from tests.integration.console.browser import CHROMIUM, chromium
from tests.integration.console.scene import fill


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # One browser per module: while it runs, no other test in this process can run an event loop.
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing: install the Debian package chromium")
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("console") / "data"
    with running_cluster(directory, 3) as found:
        fill(found.bootstrap)
        yield found


@pytest.fixture(scope="session")
def restarts(cluster: Cluster) -> Iterator[ExitStack]:
    """Yield an exit stack for brokers that a test has killed and restarted, so that they run until the session ends."""
    with ExitStack() as stack:
        yield stack
