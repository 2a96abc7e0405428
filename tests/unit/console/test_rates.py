"""How fast partitions grow."""

from tests.unit.console.console_world import Clock
from tidemill.console import rates
from tidemill.console.rates import Rates
from tidemill.model.partition import TopicPartition

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def rate_after(known: Rates, clock: Clock, after_ms: int, end_offset: int) -> float | None:
    clock.now_ms += after_ms
    return known.observe({ONE: end_offset}).get(ONE)


def test_a_rate_needs_two_looks() -> None:
    """
    The end offset must be read twice to show how fast it moves.
    """
    clock = Clock()
    known = Rates(clock)

    assert [None, 10.0] == [rate_after(known, clock, 0, 100), rate_after(known, clock, 3_000, 130)]


def test_frequent_looks_do_not_shorten_the_span() -> None:
    """
    Even if several people look at a topic at the same time, its rate is measured over at least five seconds.
    """
    clock = Clock()
    known = Rates(clock)

    found = [rate_after(known, clock, 1_000, end) for end in (0, 10, 20, 30, 40, 50, 50, 50, 50, 50)]

    assert [None, 10.0, 10.0, 10.0, 10.0, 10.0] == found[:6]
    assert 50 / 9 == found[9]


def test_an_old_look_tells_nothing_about_the_present() -> None:
    """
    If the end offset has not been read for a minute, the rate is unknown again, as it is after the partition has been
    deleted and created again.
    """
    clock = Clock()
    known = Rates(clock)
    rate_after(known, clock, 0, 100)

    assert [None, None] == [rate_after(known, clock, 60_001, 200), rate_after(known, clock, 1_000, 5)]


def test_the_partitions_seen_longest_ago_are_forgotten() -> None:
    """
    The number of partitions whose end offsets are remembered is bounded; those that were read longest ago are forgotten
    first.
    """
    clock = Clock()
    known = Rates(clock)
    many = {TopicPartition("many", number): 0 for number in range(rates.PARTITIONS_MAX)}
    rate_after(known, clock, 0, 0)

    known.observe(many)
    clock.now_ms += 1_000

    assert (
        {} == known.observe({ONE: 1})
        and {TopicPartition("many", 9)} == known.observe({TopicPartition("many", 9): 0}).keys()
    )
