"""Waiting longer each time, and giving up."""

import pytest

from tidemill.client.back_off import BackOff
from tidemill.client.failures import ClientError, RetriesExhausted


class FakeTime:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def back_off(clock: FakeTime, *, chance: float = 1.0, deadline_ms: int = 10_000) -> BackOff:
    return BackOff(
        first_ms=100,
        longest_ms=1_000,
        deadline_ms=deadline_ms,
        monotonic=lambda: clock.now,
        sleep=clock.sleep,
        chance=lambda: chance,
    )


def test_pauses_double_up_to_the_longest():
    """
    A short obstacle costs little, a long one does not cost the broker much.
    """
    clock = FakeTime()
    waiting = back_off(clock)

    for _ in range(6):
        waiting.pause(ClientError("x"))

    assert [0.1, 0.2, 0.4, 0.8, 1.0, 1.0] == clock.slept


def test_chance_takes_up_to_half_of_a_pause():
    """
    So that many clients do not come back together.
    """
    clock = FakeTime()

    back_off(clock, chance=0.0).pause(ClientError("x"))

    assert [0.05] == clock.slept


def test_the_deadline_ends_it_and_names_the_cause():
    """
    Not after the deadline, but before a pause that would pass it.
    """
    clock = FakeTime()
    waiting = back_off(clock, deadline_ms=250)
    waiting.pause(ClientError("no leader"))

    with pytest.raises(RetriesExhausted, match="gave up after 250 ms: no leader"):
        waiting.pause(ClientError("no leader"))


def test_progress_starts_the_deadline_again():
    """
    A long read may meet many short obstacles.
    """
    clock = FakeTime()
    waiting = back_off(clock, deadline_ms=250)
    for _ in range(5):
        waiting.pause(ClientError("x"))
        waiting.progressed()

    assert [0.1] * 5 == clock.slept
