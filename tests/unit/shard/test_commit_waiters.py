"""Commit waiters are called in the order of the log, even if an earlier one raises."""

import pytest

from tidemill.shard.commit_waiters import CommitWaiters


def test_a_waiter_that_raises_does_not_block_the_others() -> None:
    """
    An exception from a waiter is raised only after all waiters have been called.
    """
    waiters = CommitWaiters()
    called: list[tuple[str, bool]] = []

    def failing(is_there: bool) -> None:
        raise ZeroDivisionError("a mistake")

    waiters.add(1, failing)
    waiters.add(1, lambda is_there: called.append(("second", is_there)))
    waiters.add(2, lambda is_there: called.append(("third", is_there)))

    with pytest.raises(ExceptionGroup):
        waiters.wake(1)
    waiters.fail()

    assert [("second", True), ("third", False)] == called
