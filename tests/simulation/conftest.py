"""What was explored is told at the end of the run, whether or not anything failed."""

from collections.abc import Iterator

import pytest

EXPLORED = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[EXPLORED] = []


@pytest.fixture
def explored(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Sentences for the end of the run."""
    return request.config.stash[EXPLORED]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for sentence in config.stash[EXPLORED]:
        terminalreporter.write_line(sentence)
