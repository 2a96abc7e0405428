"""Deadlines that move away cost the host nothing."""

from tidemill.coordinator.group.deadlines import Deadlines

KEY = ("session", "g", "m")


def test_the_host_is_told_of_a_deadline_once_however_often_it_moves_away():
    """
    It calls at the first time, and is then given the newest.
    """
    deadlines = Deadlines()
    for at_ms in (100, 200, 300):
        deadlines.set(KEY, at_ms)
    told = deadlines.take_changes()

    early = deadlines.fired(KEY, 100)
    again = deadlines.take_changes()
    due = deadlines.fired(KEY, 300)

    assert told == ((KEY, 100),)
    assert (early, again) == (False, ((KEY, 300),))
    assert due and KEY not in deadlines


def test_a_deadline_that_comes_nearer_is_told_at_once():
    """
    The host must never call too late.
    """
    deadlines = Deadlines()
    deadlines.set(KEY, 300)
    deadlines.take_changes()

    deadlines.set(KEY, 50)

    assert deadlines.take_changes() == ((KEY, 50),)


def test_a_cancelled_deadline_is_not_reached():
    """
    Even if the host's timer was faster than the news.
    """
    deadlines = Deadlines()
    deadlines.set(KEY, 100)
    deadlines.take_changes()

    deadlines.cancel(KEY)

    assert deadlines.take_changes() == ((KEY, None),)
    assert not deadlines.fired(KEY, 100)
