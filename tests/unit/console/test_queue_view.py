"""The sums and pictures of queues."""

from tests.unit.console.queue_world import queue_of, share
from tidemill.console.queue_view import BarPart, Described, bar, described_bar


def test_a_sum_is_known_only_if_every_partition_is() -> None:
    """
    A sum over partitions leaves out those that the group has not read, and is unknown while a leader does not answer.
    """
    unread = Described(end=7)

    assert [12, 20] == [queue_of(share(held=5), unread, share(held=7)).total(name) for name in ("held", "lag")]
    assert [None, None] == [queue_of(share(held=5), None).total("held"), queue_of().total("held")]


def test_the_oldest_record_and_the_reasons_are_those_of_all_partitions() -> None:
    """
    The oldest record of a queue is the oldest of any partition, and a reason that blocks several is shown once.
    """
    queue = queue_of(
        share(oldest_ms=9, blocked_by="tidemill.share.max.tracked"),
        share(oldest_ms=4, blocked_by="tidemill.share.max.tracked"),
        share(oldest_ms=-1, blocked_by="key order"),
        Described(oldest_ms=1),
        None,
    )

    assert (4, ["key order", "tidemill.share.max.tracked"]) == (queue.oldest_ms, queue.blocked_by)
    assert (None, []) == (queue_of(None).oldest_ms, queue_of().blocked_by)


def test_a_bar_shows_even_few_records() -> None:
    """
    The parts of a bar fill it in proportion to their records, but even one dead record among many is seen.
    """
    parts = bar(queue_of(share(available=3), share(held=1)))
    tiny = bar(share(available=1_000_000, archiving=1))

    assert [BarPart("available", 0, 75), BarPart("held", 75, 25)] == parts
    assert ["available", "archiving"] == [it.name for it in tiny]
    assert tiny[1].width > 1.9 and 100 == round(sum(it.width for it in tiny))


def test_a_bar_without_records_is_empty() -> None:
    """
    A queue without records, and one of unknown state, have no parts.
    """
    assert [[], [], []] == [bar(None), bar(share()), bar(queue_of(None))]


def test_a_bar_is_described_in_words() -> None:
    """
    The text for readers who do not see the bar has its numbers.
    """
    assert "1,200 available, 1 held, 0 delayed, 2 dead, waiting" == described_bar(
        share(available=1_200, held=1, archiving=2)
    )
    assert "unknown" == described_bar(None)
