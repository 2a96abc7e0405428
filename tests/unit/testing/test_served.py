"""The clocks of all brokers under test move forward together."""

from datetime import timedelta
from typing import Any

import pytest

from tidemill.testing import served
from tidemill.testing.served import Served

HOUR_MS = 3_600_000


class StandIn:
    """A process of a broker that hears the clock of the other one at its second question."""

    def __init__(self, other: int, *, is_running: bool = True) -> None:
        self._other = other
        self.is_running = is_running
        self.told: list[int] = []

    def advance(self, ms: int) -> dict[str, Any]:
        self.told.append(ms)
        ahead_ms = HOUR_MS if len(self.told) > 1 else 0
        return {"wall_ms": 0, "clocks_ms": {str(self._other): served.time.time_ns() // 1_000_000 + ahead_ms}}


def moved(processes: dict[int, StandIn]) -> list[list[int]]:
    """Move the clocks of these processes forward, and return what each was told."""
    brokers = Served()
    brokers.processes.update(processes)  # type: ignore[arg-type]
    before = brokers.now()

    brokers.advance("1h")

    assert timedelta(hours=1) <= brokers.now() - before < timedelta(hours=1, minutes=1)
    return [process.told for process in processes.values()]


def test_each_broker_hears_the_new_time_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Otherwise, a leader would stamp the next record with the old time: the clocks of the others hold it back.
    """
    monkeypatch.setattr(served, "PAUSE_S", 0.0)

    assert [[HOUR_MS, 0], [HOUR_MS, 0]] == moved({1: StandIn(2), 2: StandIn(1)})


def test_a_broker_that_is_down_is_not_waited_for() -> None:
    """
    It is not told, either: it gets the time at its restart.
    """
    assert [[HOUR_MS], []] == moved({1: StandIn(2), 2: StandIn(1, is_running=False)})
