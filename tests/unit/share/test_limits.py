"""The limits on what a share keeps in memory, and what an administrator is told about them."""

from tests.unit.share.test_leases import ACCEPT, LOCK_MS, REJECT, RELEASE, Hand
from tidemill.model.back_off import BackOff, Growth
from tidemill.share.blockage import blocked_by
from tidemill.share.claim import Acquired
from tidemill.share.record_status import RecordState
from tidemill.share.share_row import Letter

END = 40


def blocked(hand: Hand) -> str | None:
    return blocked_by(hand.share, hand.leases, END)


def test_nothing_behind_the_last_run_is_acquired_at_the_limit_of_runs() -> None:
    """
    A share with as many runs as it may have delivers the records among its runs, but none behind them.  When runs have
    ended, it delivers the others again.
    """
    hand = Hand(tracked_max=4)
    hand.acquire("a", (0, 5))
    hand.say("a", 0, 5, RELEASE, ACCEPT, RELEASE, ACCEPT, ACCEPT)
    hand.commit()
    assert 4 == hand.share.tracked_count == len(hand.share.runs)

    assert [Acquired(0, 1, 2), Acquired(2, 3, 2)] == hand.acquire("b", (0, END))
    assert [] == hand.acquire("c", (0, END))
    assert "4 runs and dead letters are tracked, and tidemill.share.max.tracked is 4" == blocked(hand)

    hand.say("b", 0, 1, ACCEPT)
    hand.commit()
    assert [Acquired(5, END, 1)] == hand.acquire("c", (0, END))
    assert blocked(hand) is None


def test_dead_letters_that_are_not_written_count() -> None:
    """
    Dead records whose letters cannot be written, and the letters that are assigned, count towards the limit, and the
    administrator is told that they are the reason.
    """
    hand = Hand(tracked_max=3, has_dead_letters=True)
    hand.acquire("a", (0, 3))
    hand.say("a", 0, 3, REJECT)
    hand.commit()
    assert [RecordState.ARCHIVING] == [run.value.state for run in hand.share.runs]
    assert blocked(hand) is None

    hand.share.assign_letters(Letter(offset, 7, offset, b"t" * 16, 0) for offset in (0, 1))

    assert [] == hand.acquire("a", (0, END))
    reason = "3 runs and dead letters are tracked, and tidemill.share.max.tracked is 3"
    assert f"{reason}; 3 dead records wait for their dead letters" == blocked(hand)
    hand.share.letters_written((0,))
    assert [Acquired(3, END, 1)] == hand.acquire("a", (0, END))


def test_the_limit_of_locks_is_named() -> None:
    """A share whose consumers hold as many records as they may says so, but only while others are available."""
    hand = Hand(locks_max=5)
    hand.acquire("a", (0, END))
    assert "consumers hold 5 records, and share.partition.max.record.locks is 5" == blocked(hand)
    assert blocked_by(hand.share, hand.leases, 5) is None

    hand.now = LOCK_MS
    hand.expire()
    assert blocked(hand) is None


def test_delayed_records_are_not_blocked() -> None:
    """A delayed record waits for its time; no limit blocks it."""
    hand = Hand(locks_max=1, back_off=BackOff(growth=Growth.CONSTANT, first_ms=500))
    hand.acquire("a", (0, 1))
    hand.say("a", 0, 1, RELEASE)
    hand.commit()

    assert blocked_by(hand.share, hand.leases, 1) is None
