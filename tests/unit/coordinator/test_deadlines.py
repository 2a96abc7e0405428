"""If a deadline is postponed, the host has nothing to do until its timer fires."""

from tidemill.coordinator.deadlines import Deadlines

KEY = ("session", "g", "m")


def test_moving_a_deadline_later_does_not_re_arm_the_timer():
    """The timer fires at the first deadline, and only then is it armed for the latest one."""
    deadlines = Deadlines()
    for at_ms in (100, 200, 300):
        deadlines.set(KEY, at_ms)
    changes = deadlines.take_changes()

    early = deadlines.fired(KEY, 100)
    again = deadlines.take_changes()
    due = deadlines.fired(KEY, 300)

    assert changes == ((KEY, 100),)
    assert (early, again) == (False, ((KEY, 300),))
    assert due and KEY not in deadlines


def test_moving_a_deadline_earlier_re_arms_the_timer():
    """The timer must never fire later than the deadline."""
    deadlines = Deadlines()
    deadlines.set(KEY, 300)
    deadlines.take_changes()

    deadlines.set(KEY, 50)

    assert deadlines.take_changes() == ((KEY, 50),)


def test_a_cancelled_deadline_is_not_reached():
    """The deadline is not reached even if the host's timer fires before the host handles the cancellation."""
    deadlines = Deadlines()
    deadlines.set(KEY, 100)
    deadlines.take_changes()

    deadlines.cancel(KEY)

    assert deadlines.take_changes() == ((KEY, None),)
    assert not deadlines.fired(KEY, 100)
