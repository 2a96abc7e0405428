"""The pytest fixtures of `tidemill.testing`, and the logs of brokers in the reports of failed tests."""

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

try:
    import pytest
except ImportError as error:
    raise ImportError("tidemill.testing needs pytest: pip install 'tidemill[testing]'") from error

if TYPE_CHECKING:
    from tidemill.testing.broker import Broker
    from tidemill.testing.cluster import Cluster


@pytest.fixture(scope="session")
def tidemill_settings() -> Mapping[str, str]:
    """The configuration keys of the brokers.  Override this fixture to set some."""
    return {}


@pytest.fixture(scope="session")
def tidemill_broker(
    tidemill_settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[Broker]":
    """A running broker; all tests of the session use the same one."""
    from tidemill.testing.broker import Broker

    broker = Broker(tmp_path_factory.mktemp("tidemill"), tidemill_settings)
    yield broker
    broker.close()


@pytest.fixture(scope="session")
def _tidemill_cluster(
    tidemill_settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[Cluster]":
    from tidemill.testing.cluster import Cluster

    cluster = Cluster(tmp_path_factory.mktemp("tidemill"), tidemill_settings)
    yield cluster
    cluster.close()


@pytest.fixture
def tidemill_cluster(_tidemill_cluster: "Cluster") -> "Iterator[Cluster]":
    """A running cluster of three brokers, the same in all tests; those that a test leaves down are restarted."""
    yield _tidemill_cluster
    _tidemill_cluster.restore()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Show what the brokers of a failed test have logged last."""
    report = yield
    if report.failed:
        for fixture in ("tidemill_broker", "tidemill_cluster"):
            served = getattr(item, "funcargs", {}).get(fixture)
            for process in () if served is None else served.processes.values():
                report.sections.append((f"log of {process.name} ({fixture})", process.log()))
    return report
