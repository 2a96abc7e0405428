"""The rate of logged events is limited."""

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.rate_limited_events import INTERVAL_MS, LOGGED_MAX, RateLimitedEvents


def test_only_the_first_events_of_each_interval_are_logged() -> None:
    """
    Further events in the same interval are dropped, and the next interval starts counting anew.
    """
    clock = HandClock()
    rate_limited = RateLimitedEvents(clock)

    told = [rate_limited.may_log() for _ in range(LOGGED_MAX + 5)]
    clock.now_ms += INTERVAL_MS

    assert [True] * LOGGED_MAX + [False] * 5 == told
    assert rate_limited.may_log()
