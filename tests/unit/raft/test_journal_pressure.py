"""A leader yields leadership when every tick for FULL_MS has found its journal full."""

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.journal_pressure import FULL_MS, JournalPressure

ONE, TWO = (ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in (1, 2))
TICK_MS = 250


def full_until(pressure: JournalPressure, now_ms: int) -> None:
    """Tick from 0 to `now_ms`, with a full journal."""
    for at_ms in range(0, now_ms + 1, TICK_MS):
        pressure.tick(at_ms, at_ms - TICK_MS, is_full=True)


def test_yielding_is_due_once_the_journal_has_been_full_for_long_enough() -> None:
    """
    Yielding is due once the journal has been full for FULL_MS; a shorter stall does not justify a change of leaders.
    """
    pressure = JournalPressure()
    full_until(pressure, FULL_MS)

    assert [False, True] == [pressure.is_yield_due(now_ms) for now_ms in (FULL_MS - 1, FULL_MS)]


def test_the_voters_are_asked_in_turn() -> None:
    """The leader asks another voter to campaign every FULL_MS, because the one asked last may be unable to lead."""
    pressure = JournalPressure()
    full_until(pressure, FULL_MS)

    asked = [pressure.next_successor((ONE, TWO)) for _ in range(3)]

    assert [ONE, TWO, ONE] == asked
    assert not pressure.is_yield_due(4 * FULL_MS - 1)
    assert pressure.is_yield_due(4 * FULL_MS)


def test_room_in_between_starts_the_time_over() -> None:
    """The leader yields only after FULL_MS with a full journal.  This time is measured anew after the journal has had
    free space, or could have had some while the replica was asleep.
    """
    pressure, sleeper = JournalPressure(), JournalPressure()
    full_until(pressure, FULL_MS - TICK_MS)
    full_until(sleeper, FULL_MS - TICK_MS)

    pressure.tick(FULL_MS, FULL_MS - TICK_MS, is_full=False)
    sleeper.tick(2 * FULL_MS, FULL_MS - TICK_MS, is_full=True)

    assert not pressure.is_full
    assert not sleeper.is_yield_due(3 * FULL_MS - 1)
    assert sleeper.is_yield_due(3 * FULL_MS)
