"""A broker for the commands: the one at TIDEMILL_TEST_BOOTSTRAP if it is set, otherwise a new one."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.cli.dev_broker import running_broker


@pytest.fixture(scope="session")
def dev_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Yield the ready line of a running broker: its addresses and its data directory."""
    with running_broker(tmp_path_factory.mktemp("data")) as ready:
        yield ready


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Return the address of a running broker."""
    return os.environ.get("TIDEMILL_TEST_BOOTSTRAP") or str(request.getfixturevalue("dev_broker")["kafka"])
