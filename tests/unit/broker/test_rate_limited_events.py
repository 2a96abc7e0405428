"""Nobody floods the event log."""

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.rate_limited_events import TOLD_MAX, WHILE_MS, RateLimitedEvents


def test_only_the_first_of_a_while_are_told() -> None:
    """
    And the first of the next.
    """
    clock = HandClock()
    rate_limited = RateLimitedEvents(clock)

    told = [rate_limited.may_tell() for _ in range(TOLD_MAX + 5)]
    clock.now_ms += WHILE_MS

    assert [True] * TOLD_MAX + [False] * 5 == told
    assert rate_limited.may_tell()
