"""Which dead letters are assigned and sent, and what the answers mean."""

from collections.abc import Iterable

import pytest

from tests.unit.share.runs import run
from tidemill.model import errors
from tidemill.model.topic import TopicId
from tidemill.share.letters import BACK_OFF_MS, SEQUENCE_MAX, TRIES_MAX, UNANSWERED, UNMARKED_MAX, Letters, Target
from tidemill.share.record_status import Reason, RecordState, RecordStatus
from tidemill.share.share import Share
from tidemill.share.share_row import Letter

TOPIC = TopicId(bytes(16))
TARGET = Target(TOPIC, 0)
OTHER = Target(TopicId(bytes(15) + b"\x01"), 0)
ALL = 100


def share_with(*dead: int) -> Share:
    """Return a share whose records `dead` are dead, without letters."""
    share = Share(number=1, group="g", incarnation=1, state_epoch=0, start=0)
    share.set_runs(run(offset, offset + 1, RecordState.ARCHIVING, Reason.REJECTED, 1) for offset in dead)
    return share


def leader(share: Share, producer_id: int | None = 7) -> Letters:
    letters = Letters(share)
    letters.producer_id = producer_id
    return letters


def assign(share: Share, letters: Letters, offsets: Iterable[int], target: Target = TARGET) -> list[Letter]:
    """Assign letters, and commit them."""
    assigned = [letters.assign(offset, target) for offset in offsets]
    share.assign_letters(assigned)
    letters.assigned(assigned)
    return assigned


def write(share: Share, letters: Letters, letter: Letter, now: int = 0) -> None:
    """Answer that a letter is written, and commit LETTERED."""
    assert letters.answered(letter, errors.NONE, now)
    share.letters_written([letter.offset])
    letters.finished([letter])


def test_dead_records_without_letters_are_found() -> None:
    """Records that die later are found even if they are before the others."""
    share = share_with(1, 2, 9)
    letters = leader(share)
    assign(share, letters, [1])
    assert [2, 9] == [*letters.dead()]
    assign(share, letters, [2, 9])
    assert [] == [*letters.dead()]
    assert not letters.may_lack_letters

    share.set_runs([run(5, 7, RecordState.ARCHIVING)])
    letters.died(5)
    assert [5, 6] == [*letters.dead()]


def test_a_proposed_letter_is_sent_when_it_has_committed() -> None:
    share = share_with(1)
    letters = leader(share)
    letter = letters.assign(1, TARGET)
    assert [] == letters.to_send(0, ALL)
    assert [] == [*letters.dead()]

    share.assign_letters([letter])
    letters.assigned([letter])
    assert [letter] == letters.to_send(0, ALL)
    assert [] == letters.to_send(0, ALL), "it is in flight"


def test_the_first_letter_of_a_producer_id_goes_alone() -> None:
    share = share_with(1, 2, 3)
    letters = leader(share)
    first, second, third = assign(share, letters, [1, 2, 3])
    assert [0, 1, 2] == [letter.sequence for letter in (first, second, third)]
    assert [first] == letters.to_send(0, ALL)
    write(share, letters, first)

    assert [second, third] == letters.to_send(0, ALL)


def test_the_first_letter_to_another_target_goes_alone_too() -> None:
    """Sequences are per target, and the other target does not know the producer either."""
    share = share_with(1, 2, 3)
    letters = leader(share)
    assign(share, letters, [1])
    write(share, letters, *letters.to_send(0, ALL))
    first, second = assign(share, letters, [2, 3], OTHER)

    assert (0, 1) == (first.sequence, second.sequence)
    assert [first] == letters.to_send(0, ALL)


def test_at_most_four_letters_are_not_finished() -> None:
    """A letter that is written, but not marked in the log, still counts: the next leader would send it again."""
    share = share_with(*range(10))
    letters = leader(share)
    (first, *_) = assign(share, letters, range(UNMARKED_MAX))
    assert 0 == letters.room(TARGET)
    letters.to_send(0, ALL)
    assert letters.answered(first, errors.NONE, 0)
    assert 0 == letters.room(TARGET)

    letters.finished([first])
    assert 1 == letters.room(TARGET)


def test_the_next_leader_sends_unmarked_letters_with_their_ids() -> None:
    """In the order of their sequences, the first one alone.  Further letters get an id of the new leader."""
    share = share_with(1, 2, 3)
    old = assign(share, leader(share), [1, 2])
    letters = leader(share, producer_id=8)

    assert [3] == [*letters.dead()]
    (new,) = assign(share, letters, [3])
    assert (8, 0) == (new.producer_id, new.sequence)
    assert [old[0], new] == letters.to_send(0, ALL)
    write(share, letters, old[0])
    assert [old[1]] == letters.to_send(0, ALL)


@pytest.mark.parametrize("code", [errors.NOT_LEADER_OR_FOLLOWER, errors.KAFKA_STORAGE_ERROR, UNANSWERED])
def test_a_refused_letter_is_sent_again_after_a_back_off(code: int) -> None:
    share = share_with(1)
    letters = leader(share)
    (letter,) = assign(share, letters, [1])
    now = 0
    for tries in range(7):
        assert [letter] == letters.to_send(now, ALL)
        assert not letters.answered(letter, code, now)
        assert tries + 1 == letters.tries
        delay = min(BACK_OFF_MS << tries, 30_000)
        assert [] == letters.to_send(now + delay - 1, ALL)
        now += delay
    assert [letter] == letters.to_send(now, ALL)
    write(share, letters, letter)
    assert 0 == letters.tries


def known_lane(share: Share, letters: Letters) -> list[Letter]:
    """Write the letter of record 0, and return the four letters that are then in flight."""
    assign(share, letters, [0])
    write(share, letters, *letters.to_send(0, ALL))
    assigned = assign(share, letters, [1, 2, 3, 4])
    assert assigned == letters.to_send(0, ALL)
    return assigned


def test_letters_after_a_refused_one_are_sent_again_after_it() -> None:
    """
    The target refuses the later ones, because a sequence is missing.  Nothing is sent until all are answered, and then
    the first one alone.
    """
    share = share_with(*range(5))
    letters = leader(share)
    first, *later = known_lane(share, letters)
    letters.answered(first, errors.NOT_LEADER_OR_FOLLOWER, 0)
    for letter in later:
        assert [] == letters.to_send(5_000, ALL)
        letters.answered(letter, errors.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)

    assert [first] == letters.to_send(5_000, ALL)
    write(share, letters, first)
    assert later == letters.to_send(5_000, ALL)


def test_a_letter_that_was_only_overtaken_is_sent_again_at_once() -> None:
    share = share_with(*range(5))
    letters = leader(share)
    first, second, *rest = known_lane(share, letters)
    letters.answered(second, errors.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    write(share, letters, first)
    for letter in rest:
        write(share, letters, letter)

    assert [second] == letters.to_send(0, ALL)
    assert 0 == letters.tries


def test_a_letter_without_its_predecessor_gets_another_producer_id() -> None:
    """
    A letter that is refused as out of order, although nothing else is in flight, is not at the target: it would be
    recognized there.  It can never be written with its sequence.
    """
    share = share_with(1, 2)
    assign(share, leader(share), [1, 2])
    letters = leader(share, producer_id=8)
    (first,) = letters.to_send(0, ALL)
    assert not letters.answered(first, errors.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)

    assert [1, 2] == [*letters.dead()]
    assert [8, 8] == [letter.producer_id for letter in assign(share, letters, [1, 2])]
    assert [1] == [letter.offset for letter in letters.to_send(0, ALL)]


def test_the_own_producer_id_is_not_used_after_that() -> None:
    share = share_with(1, 2)
    letters = leader(share)
    (first,) = assign(share, letters, [1])
    letters.to_send(0, ALL)
    letters.answered(first, errors.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)

    assert letters.producer_id is None
    letters.producer_id = 9
    assert [(9, 0), (9, 1)] == [(it.producer_id, it.sequence) for it in assign(share, letters, [1, 2])]


def test_letters_to_a_deleted_topic_are_assigned_again() -> None:
    """Letters in flight are assigned again when they are answered."""
    share = share_with(1, 2, 3)
    letters = leader(share)
    assign(share, letters, [1, 2])
    (first,) = letters.to_send(0, ALL)
    letters.target_deleted(TOPIC)
    assert [3] == [*letters.dead()]
    letters.answered(first, errors.UNKNOWN_TOPIC_ID, 0)
    letters.target_deleted(TOPIC)

    assert [1, 2, 3] == [*letters.dead()]
    letters.producer_id = 9
    (again,) = assign(share, letters, [1], OTHER)
    assert again == share.letters[1]
    assert [again] == letters.to_send(0, ALL)


def test_a_letter_that_is_too_large_is_sent_without_its_record() -> None:
    share = share_with(1)
    letters = leader(share)
    (letter,) = assign(share, letters, [1])
    assert letters.has_payload(letter)
    letters.to_send(0, ALL)
    letters.answered(letter, errors.MESSAGE_TOO_LARGE, 0)

    assert [letter] == letters.to_send(0, ALL)
    assert not letters.has_payload(letter)
    letters.answered(letter, errors.MESSAGE_TOO_LARGE, 0)
    assert [] == letters.to_send(0, ALL), "even that is too large: it waits"


def test_a_record_that_is_sent_back_is_never_sent_without_its_content() -> None:
    share = share_with(1)
    letters = Letters(share, may_omit_payload=False)
    letters.producer_id = 7
    (letter,) = assign(share, letters, [1])
    letters.to_send(0, ALL)
    letters.answered(letter, errors.MESSAGE_TOO_LARGE, 0)

    assert letters.has_payload(letter)
    assert [] == letters.to_send(0, ALL)


def test_letters_are_given_up_together() -> None:
    """The target would refuse the letters after the one that is given up, so further letters get another id."""
    share = share_with(1, 2, 3)
    letters = leader(share)
    first, second = assign(share, letters, [1, 2])
    now = 0
    for _ in range(TRIES_MAX):
        assert [] == letters.give_up()
        assert [first] == letters.to_send(now, ALL)
        letters.answered(first, errors.KAFKA_STORAGE_ERROR, now)
        now += 30_000

    assert [first, second] == letters.give_up()
    share.letters_written([1, 2])
    letters.finished([first, second])
    assert letters.producer_id is None
    assert [3] == [*letters.dead()]


def test_held_records_are_skipped_until_they_are_released() -> None:
    share = share_with(1, 2, 3)
    letters = leader(share)
    letters.hold(2)
    assert [1, 3] == [*letters.dead()]
    assign(share, letters, [1, 3])
    assert [] == [*letters.dead()]
    assert not letters.is_idle

    letters.release_held()
    assert [2] == [*letters.dead()]


def test_records_without_letters_can_be_archived() -> None:
    share = share_with(1, 2)
    letters = leader(share)
    letters.archive([1, 2])
    assert [] == [*letters.dead()]
    assert not letters.is_idle
    share.letters_written([1, 2])
    letters.archived([1, 2])

    assert letters.is_idle


def test_retention_removes_a_record_whose_letter_is_proposed() -> None:
    """A letter that was not stored is not sent."""
    share = share_with(1, 2)
    letters = leader(share)
    letter = letters.assign(1, TARGET)
    share.log_starts_at(2)
    share.assign_letters([letter])
    letters.assigned([letter])

    assert [] == letters.to_send(0, ALL)
    assert [2] == [*letters.dead()]


def test_an_assigned_letter_is_sent_after_retention_has_removed_its_record() -> None:
    share = share_with(1)
    letters = leader(share)
    (letter,) = assign(share, letters, [1])
    assert letters.status(letter) == RecordStatus(RecordState.ARCHIVING, 1, reason=Reason.REJECTED)
    share.log_starts_at(5)

    assert [letter] == letters.to_send(0, ALL)
    assert letters.status(letter) is None
    write(share, letters, letter)
    assert {} == share.letters


def test_a_producer_id_ends_with_its_sequences() -> None:
    share = share_with(1, 2)
    letters = leader(share)
    letters._next_sequences[TARGET] = SEQUENCE_MAX
    (letter,) = assign(share, letters, [1])

    assert SEQUENCE_MAX == letter.sequence
    assert letters.producer_id is None


def test_no_more_letters_are_sent_than_there_is_room_for() -> None:
    share = share_with(*range(5))
    letters = leader(share)
    assign(share, letters, [0])
    write(share, letters, *letters.to_send(0, ALL))
    assigned = assign(share, letters, [1, 2, 3, 4])

    assert assigned[:3] == letters.to_send(0, 3)
    assert assigned[3:] == letters.to_send(0, 3)
