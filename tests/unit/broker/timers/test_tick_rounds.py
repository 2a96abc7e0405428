"""A tick looks at partitions that have moved lately, and at some of the rest."""

import pytest

from tidemill.broker.timers import tick_rounds
from tidemill.broker.timers.tick_rounds import MOVED_MS, ROUND_TICKS, TickRounds


def test_all_partitions_are_looked_at_once_in_a_round() -> None:
    count = 10_001
    rounds = TickRounds[int](lambda: range(count))
    ticks = [rounds.tick(0) for _ in range(ROUND_TICKS)]

    assert list(range(count)) == sorted(key for tick in ticks for key in tick)
    assert max(map(len, ticks)) <= count // ROUND_TICKS + 1
    assert rounds.tick(0)


def test_a_few_partitions_are_all_looked_at_in_each_tick() -> None:
    rounds = TickRounds[int](lambda: range(tick_rounds.AT_ONCE_MIN))

    assert [tick_rounds.AT_ONCE_MIN] * 3 == [len(rounds.tick(0)) for _ in range(3)]


def test_a_partition_that_has_moved_is_looked_at_once_in_each_tick_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick_rounds, "AT_ONCE_MIN", 1)
    rounds = TickRounds[int](lambda: range(ROUND_TICKS))
    rounds.moved(0, 1_000)

    assert [0] == [key for key in rounds.tick(1_000) if key == 0]
    assert 0 in rounds.tick(1_000 + MOVED_MS - 1)
    assert 0 not in rounds.tick(1_000 + MOVED_MS)


def test_a_partition_that_has_moved_in_the_tick_of_its_turn_is_named_once() -> None:
    rounds = TickRounds[int](lambda: range(3))
    rounds.moved(1, 0)

    assert [0, 1, 2] == sorted(rounds.tick(0))
