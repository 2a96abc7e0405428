"""The exponential back-off between retries, and the deadline of the retries."""

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
    Pauses double up to a maximum: a short outage causes only a short delay, and a long outage only a few requests.
    """
    clock = FakeTime()
    waiting = back_off(clock)

    for _ in range(6):
        waiting.pause(ClientError("x"))

    assert [0.1, 0.2, 0.4, 0.8, 1.0, 1.0] == clock.slept


def test_a_pause_is_shortened_by_up_to_half_at_random():
    """
    A random part, up to half, is taken off each pause, so that many clients do not retry simultaneously.
    """
    clock = FakeTime()

    back_off(clock, chance=0.0).pause(ClientError("x"))

    assert [0.05] == clock.slept


def test_a_pause_that_would_pass_the_deadline_raises_with_the_cause():
    """
    If a pause would go beyond the deadline, the last error is raised immediately instead of at the deadline.
    """
    clock = FakeTime()
    waiting = back_off(clock, deadline_ms=250)
    waiting.pause(ClientError("no leader"))

    with pytest.raises(RetriesExhausted, match="gave up after 250 ms: no leader"):
        waiting.pause(ClientError("no leader"))


def test_progress_restarts_the_deadline():
    """
    Progress restarts the deadline, so that a long read can survive many short outages.
    """
    clock = FakeTime()
    waiting = back_off(clock, deadline_ms=250)
    for _ in range(5):
        waiting.pause(ClientError("x"))
        waiting.reset()

    assert [0.1] * 5 == clock.slept
