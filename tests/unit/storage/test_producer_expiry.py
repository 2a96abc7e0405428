"""The expiry of producers depends only on the committed log, not on the times of checkpoints or truncated entries."""

from collections.abc import Callable

from tests.unit.storage.conftest import Hand
from tidemill.storage.partition.producer_states import PRODUCERS_KEPT, Duplicate

DAY_MS = 24 * 3_600_000
MANY = PRODUCERS_KEPT + 20

MakeHand = Callable[..., Hand]


def write_many(hand: Hand) -> None:
    """Append one batch for each producer, all within two seconds of append time."""
    for number in range(MANY):
        hand.append(1, producer_id=1_000 + number, producer_epoch=0, base_sequence=0)
        if number % 20 == 19:
            hand.write_all()
            hand.commit()
            hand.checkpoint()


def late(hand: Hand, silence_ms: int) -> None:
    hand.next_timestamp += silence_ms
    hand.append(1)
    hand.write_all()


def remembered(hand: Hand) -> list[int]:
    states, since_ms = hand.log.producers, hand.shard.committed_append_time - DAY_MS
    return sorted(states.newest().keys() - states.silent(hand.shard.commit_index, since_ms))


def test_equal_logs_have_equal_states_after_different_checkpoints(make_hand: MakeHand) -> None:
    """A leader and a follower have equal states even if they take checkpoints at different times."""
    states = []
    for makes_checkpoint in (False, True):
        hand = make_hand()
        write_many(hand)
        late(hand, 2 * DAY_MS)
        hand.commit()
        if makes_checkpoint:
            hand.checkpoint()
        states.append((hand.shard.last_index, hand.log.end_offset, remembered(hand)))

    assert states[0] == states[1]
    assert PRODUCERS_KEPT == len(states[0][2]) == len(hand.log.producers)


def test_a_truncated_entry_does_not_expire_producers(make_hand: MakeHand) -> None:
    """
    A leader whose clock is a day and an hour ahead appends an entry that never commits.  A follower that has the entry
    takes a checkpoint, and the next leader truncates the entry.  In the remaining log, no producer was silent for more
    than 2 s.
    """
    hand = make_hand()
    write_many(hand)
    before = hand.log.producers.check(1_000, 0, 0, 1)
    committed, last_append_time = hand.shard.last_index, hand.shard.last_append_time

    late(hand, DAY_MS + 3_600_000)
    hand.checkpoint()
    again = hand.restarted()
    for it in (hand, again):
        it.store.truncate(it.shard, committed + 1)
        it.write_all()

    assert isinstance(before, Duplicate)
    for it in (hand, again):
        assert before == it.log.producers.check(1_000, 0, 0, 1)
        assert last_append_time == it.shard.last_append_time


def test_producers_expire_in_a_shard_that_always_has_queued_rows(make_hand: MakeHand) -> None:
    """Producers expire even if rows of the shard are in the queue at every checkpoint."""
    hand = make_hand()
    write_many(hand)
    late(hand, 2 * DAY_MS)
    hand.commit()
    hand.append(1)

    hand.store.begin_checkpoint()

    assert PRODUCERS_KEPT == len(hand.log.producers)
