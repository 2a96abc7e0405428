"""The rate of logged events is limited."""

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.rate_limited_events import TOLD_MAX, WHILE_MS, RateLimitedEvents


def test_only_the_first_events_of_each_interval_are_logged() -> None:
    """
    And the first of the next interval.
    """
    clock = HandClock()
    rate_limited = RateLimitedEvents(clock)

    told = [rate_limited.may_tell() for _ in range(TOLD_MAX + 5)]
    clock.now_ms += WHILE_MS

    assert [True] * TOLD_MAX + [False] * 5 == told
    assert rate_limited.may_tell()
