"""One broker for all attacks, in any order: every test must leave it usable."""

from collections.abc import Iterator

import pytest

from tests.integration.hostile.attacked_broker import AttackedBroker


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedBroker]:
    attacked = AttackedBroker(tmp_path_factory.mktemp("attacked"))
    try:
        yield attacked
    finally:
        attacked.stop()


@pytest.fixture
def broker(running: AttackedBroker) -> AttackedBroker:
    running.baseline = running.resident_bytes()
    return running
