"""What was explored is told at the end of the run, whether or not anything failed."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

EXPLORED = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[EXPLORED] = []


@pytest.fixture
def explored(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Sentences for the end of the run."""
    return request.config.stash[EXPLORED]


def pytest_sessionfinish(session: pytest.Session) -> None:
    told = getattr(session.config, "workeroutput", None)  # where several processes share the tests
    if told is not None:
        told["explored"] = session.config.stash[EXPLORED]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[EXPLORED] += getattr(node, "workeroutput", {}).get("explored", [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for sentence in config.stash[EXPLORED]:
        terminalreporter.write_line(sentence)


@pytest.fixture(scope="session", autouse=True)
def _rare_collections() -> Iterator[None]:
    """A run makes and drops objects by the million, and few cycles: a tenth of its time went to looking for those."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()
