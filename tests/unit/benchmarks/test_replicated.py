"""A run of three brokers reports the smallest number of checkpoints that any of them completed."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.cases import RATE, Case, Kind, Load
from benchmarks.clusters import Cluster
from benchmarks.measure import Bench
from benchmarks.replicated import measure

CASE = Case(name="produce", kind=Kind.PRODUCE, unit=RATE, target=None, load=Load(records=500_000))
NO_BROKER = SimpleNamespace(name="", pid=0)


class Counting(Cluster):
    """A cluster whose brokers return the given checkpoint counts, one list per call."""

    def __init__(self, *answers: Sequence[int]) -> None:
        super().__init__(cast(Any, [NO_BROKER]))
        self._answers = list(answers)

    def checkpoints(self) -> list[int]:
        return list(self._answers.pop(0))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(Bench, "measure", lambda self, case: {"value": 1.0, "cpu": 2.0})
    return Bench(cast(Any, NO_BROKER))


def test_a_run_has_the_checkpoints_of_the_broker_with_the_fewest(bench: Bench) -> None:
    """
    The number of checkpoints of a run is that of the broker with the fewest; checkpoints completed before the run do
    not count.
    """
    figures = measure(bench, Counting([7, 0, 2], [11, 3, 7]), CASE)

    assert {"value": 1.0, "cpu": 2.0, "cpu per million": 4.0, "checkpoints": 3} == figures


def test_brokers_without_checkpoints_report_none(bench: Bench) -> None:
    """
    A run on brokers without checkpoints, such as Apache Kafka, reports no number of checkpoints, and so is not judged
    by one.
    """
    assert "checkpoints" not in measure(bench, Counting([], []), CASE)
