"""The durable state of a share group on a partition."""

import pytest

from tests.unit.share.runs import run
from tidemill.share.record_status import Reason, RecordState
from tidemill.share.share import Removed, Share
from tidemill.share.share_row import Letter

ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED


def share(start: int = 10) -> Share:
    return Share(number=1, group="g", incarnation=1, state_epoch=0, start=start)


def letter(offset: int) -> Letter:
    return Letter(offset, producer_id=7, sequence=offset, topic_id=b"d" * 16, partition=0)


def test_the_start_moves_past_finished_records() -> None:
    """The start moves to the first unfinished record, and the states of later records are kept."""
    one = share()
    one.set_runs([run(12, 14, ACKNOWLEDGED, Reason.NONE, 1)])
    assert 10 == one.start

    one.set_runs([run(10, 12, ARCHIVED, Reason.REJECTED, 1), run(20, 21, ACKNOWLEDGED)])

    assert 14 == one.start
    assert [run(20, 21, ACKNOWLEDGED)] == list(one.runs)


def test_a_late_state_below_the_start_changes_nothing() -> None:
    """A release that commits after its record was finished does not make the record available again."""
    one = share()
    one.set_runs([run(10, 15, ACKNOWLEDGED)])

    one.set_runs([run(8, 17, RecordState.AVAILABLE, Reason.NONE, 2)])

    assert 15 == one.start
    assert [run(15, 17, RecordState.AVAILABLE, Reason.NONE, 2)] == list(one.runs)


def test_a_record_whose_letter_is_not_written_holds_the_start() -> None:
    """The start of a share does not move past a dead record before its dead letter is written."""
    one = share()
    one.set_runs([run(10, 12, ARCHIVING, Reason.DELIVERY_LIMIT, 5), run(12, 13, ACKNOWLEDGED)])
    one.assign_letters([letter(10), letter(11), letter(12)])
    assert (10, {10, 11}) == (one.start, set(one.letters))

    one.letters_written([11])
    assert (10, {10}) == (one.start, set(one.letters))

    one.letters_written([10])
    assert (13, {}) == (one.start, one.letters)
    assert [] == list(one.runs)


def test_a_record_that_is_no_longer_dead_loses_its_letter() -> None:
    """
    If a record leaves the state ARCHIVING, in which it waits for its dead letter to be written, the letter is dropped.
    """
    one = share()
    one.set_runs([run(10, 13, ARCHIVING, Reason.REJECTED, 1)])
    one.assign_letters([letter(11), letter(12)])

    one.set_runs([run(11, 12, ARCHIVED, Reason.REJECTED, 1)])

    assert {12} == set(one.letters)


@pytest.mark.parametrize(
    ("log_start", "removed", "start"),
    [(10, Removed(), 10), (12, Removed(2, 0), 12), (16, Removed(4, 0), 17), (30, Removed(13, 1), 30)],
)
def test_retention_is_counted(log_start: int, removed: Removed, start: int) -> None:
    """
    Records that retention removes before they are finished are counted.  A dead letter that already has a producer id
    and a sequence is kept, because it may have been written.
    """
    one = share()
    one.set_runs([run(14, 17, ACKNOWLEDGED), run(20, 22, ARCHIVING, Reason.REJECTED, 1), run(25, 27, ACKNOWLEDGED)])
    one.assign_letters([letter(21)])

    assert removed == one.log_starts_at(log_start)

    assert (start, removed.unread, {21}) == (one.start, one.expired_unread, set(one.letters))


def test_a_letter_of_a_removed_record_is_completed() -> None:
    """
    If retention removes a record whose dead letter already has a producer id and a sequence, the letter is kept until
    it has been written.
    """
    one = share()
    one.set_runs([run(10, 11, ARCHIVING, Reason.REJECTED, 1)])
    one.assign_letters([letter(10)])
    one.log_starts_at(20)

    one.letters_written([10])

    assert ({}, 20) == (one.letters, one.start)
