"""The time that several requests have together."""

import pytest

from tidemill.cli import deadline
from tidemill.cli.deadline import LEAST_S, Deadline


def test_what_is_left_bounds_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A request gets its own time or what is left, and a moment even after the deadline, so that it fails by itself.
    """
    moments_s = iter((100.0, 100.0, 107.0, 200.0))
    monkeypatch.setattr(deadline.time, "monotonic", lambda: next(moments_s))
    given = Deadline(10)

    bounded = [given.bounded(5) for _ in range(3)]

    assert [5, 3, LEAST_S] == bounded


def test_without_a_time_every_request_has_its_own() -> None:
    """
    Most commands wait for each request as long as the request may take.
    """
    assert 5 == Deadline().bounded(5)
