"""Who waits is called in the order of the log, whatever those before did."""

import pytest

from tidemill.shard.commit_waiters import CommitWaiters


def test_a_waiter_that_raises_does_not_block_the_others() -> None:
    """
    The mistake is raised when all have been told.
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
