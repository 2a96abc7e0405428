"""The time limit that several requests share."""

import pytest

from tidemill.cli import deadline
from tidemill.cli.deadline import LEAST_S, Deadline


def test_what_is_left_bounds_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Under a deadline, a request gets its own timeout or the remaining time, whichever is shorter.  Even after the
    deadline it gets a short timeout, so that the request itself fails.
    """
    moments_s = iter((100.0, 100.0, 107.0, 200.0))
    monkeypatch.setattr(deadline.time, "monotonic", lambda: next(moments_s))
    given = Deadline(10)

    bounded = [given.bounded(5) for _ in range(3)]

    assert [5, 3, LEAST_S] == bounded


def test_without_a_time_every_request_has_its_own() -> None:
    """
    Without a deadline, as in most commands, each request gets its full timeout.
    """
    assert 5 == Deadline().bounded(5)
