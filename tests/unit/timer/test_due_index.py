"""The index by due time."""

from random import Random
from types import ModuleType

import pytest

from tests.unit.timer.index_host import EVERYTHING, IndexHost, step


@pytest.mark.parametrize("block", range(20))
def test_what_is_taken_equals_an_oracle(due_scan: ModuleType, block: int) -> None:
    """
    Whatever is done in whatever order, rows are taken in the order of (due, arrival), each once, the newest copy, and
    the wake-up is never late.
    """
    for seed in range(block * 10, block * 10 + 10):
        random, host = Random(seed), IndexHost()
        limit = 1_000
        for _ in range(150):
            limit += random.choice((0, 0, 0, 1, 5))
            step(host, random, limit)
            host.check()
        host.lead()
        expected = host.expected()
        assert expected == [(row.due_ms, row.arrival) for row in host.take_all(EVERYTHING)]
