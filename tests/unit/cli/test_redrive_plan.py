"""Which letters are sent back."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cli.dead_letters import dead_letter
from tidemill.cli.redrive_plan import OffsetRun, Skip, plan, take

TOPICS = {"orders", "payments", "dlq.orders"}


def test_letters_go_to_their_topics() -> None:
    """
    Each letter goes to the topic from which it came; consecutive offsets of a partition are one run.
    """
    letters = [dead_letter(0), dead_letter(1, topic="payments"), dead_letter(5), dead_letter(2, partition=1)]

    planned = plan(letters, "dlq.orders", to=None, topics=TOPICS)

    assert {0: deque([OffsetRun(0, 1), OffsetRun(5, 5)]), 1: deque([OffsetRun(2, 2)])} == planned.runs
    assert (4, {"orders": 3, "payments": 1}) == (planned.letters, planned.targets)


def test_letters_that_cannot_be_sent_back_are_counted() -> None:
    """
    A letter is skipped if it names no existing topic but its own, or has lost the content of its record: an empty
    record would take its place.
    """
    letters = [
        dead_letter(0, topic=None),
        dead_letter(1, origin_partition=None),
        dead_letter(2, topic="gone"),
        dead_letter(3, topic="dlq.orders"),
        dead_letter(4, omitted="too large"),
    ]

    planned = plan(letters, "dlq.orders", to=None, topics=TOPICS)

    assert (0, {}, {"gone"}) == (planned.letters, planned.runs, planned.unknown_topics)
    assert {Skip.NO_ORIGIN: 2, Skip.UNKNOWN_TOPIC: 1, Skip.OWN_TOPIC: 1, Skip.NO_CONTENT: 1} == planned.skipped


def test_an_empty_record_is_sent_back_only_if_it_was_empty() -> None:
    """
    A group may send letters without the content of their records, and no header says so.  Tidemill adds the timestamp
    of the record to every letter that has the content, so a record without key and value can be told from it.
    """
    letters = [
        dead_letter(0, key=None, value=None),
        dead_letter(1, key=None, value=None, origin_ms=5),
        dead_letter(2, value=None),
    ]

    planned = plan(letters, "dlq.orders", to=None, topics=TOPICS)

    assert {0: deque([OffsetRun(1, 2)])} == planned.runs and {Skip.NO_CONTENT: 1} == planned.skipped


def test_another_topic_takes_letters_of_any_origin() -> None:
    """
    With --to, the origin does not matter, but the content of the record does.
    """
    letters = [dead_letter(0, topic=None), dead_letter(1, topic="gone"), dead_letter(2, omitted="too large")]

    planned = plan(letters, "dlq.orders", to="payments", topics=TOPICS)

    assert ({"payments": 2}, {Skip.NO_CONTENT: 1}) == (planned.targets, planned.skipped)


def offsets_of(runs: list[OffsetRun]) -> list[int]:
    return [offset for run in runs for offset in range(run.first, run.last + 1)]


@given(st.sets(st.integers(0, 60)), st.integers(1, 9))
def test_batches_have_all_offsets_once_and_in_order(offsets: set[int], size_max: int) -> None:
    """
    A batch has at most as many offsets as asked for; runs are cut where a batch is full.
    """
    planned = plan(map(dead_letter, sorted(offsets)), "dlq.orders", to=None, topics=TOPICS)
    runs = planned.runs.get(0, deque())
    batches = []
    while runs:
        batches.append(offsets_of(take(runs, size_max)))

    assert sorted(offsets) == [offset for batch in batches for offset in batch]
    assert all(len(batch) == size_max for batch in batches[:-1])
    assert all(0 < len(batch) <= size_max for batch in batches)
