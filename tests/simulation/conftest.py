"""
At the end of the test run, prints what the simulation tests explored, whether or not a test failed.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulation.cluster.fault_counts import never_happened

EXPLORED = pytest.StashKey[list[str]]()
MET = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[EXPLORED] = []
    config.stash[MET] = Counter()


@pytest.fixture
def explored(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Return the list of lines that are printed at the end of the test run."""
    return request.config.stash[EXPLORED]


@pytest.fixture
def met(request: pytest.FixtureRequest) -> Counter[str]:
    """Return the counts of faults and effects in the whole test run."""
    return request.config.stash[MET]


def pytest_sessionfinish(session: pytest.Session) -> None:
    stash = session.config.stash
    output = getattr(session.config, "workeroutput", None)  # exists only in the worker processes of pytest-xdist
    if output is not None:
        output |= {"explored": stash[EXPLORED], "met": dict(stash[MET])}
    elif missing := never_happened(stash[MET]):
        stash[EXPLORED].append(f"FAILED: these never happened in all lots of seeds: {', '.join(missing)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", {})
    node.config.stash[EXPLORED] += output.get("explored", [])
    node.config.stash[MET].update(output.get("met", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for sentence in config.stash[EXPLORED]:
        terminalreporter.write_line(sentence)
