"""Repeated events are collapsed per key."""

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.rate_limited_events import INTERVAL_MS as RATE_INTERVAL_MS
from tidemill.broker.rate_limited_events import LOGGED_MAX
from tidemill.broker.repeated_events import INTERVAL_MS, KEYS_MAX, RepeatedEvents


def test_a_key_is_logged_once_per_interval_with_the_number_left_out() -> None:
    """
    The first event with a key is logged.  The next one that is logged, after the interval, says how many were left out.
    """
    clock = HandClock()
    repeated = RepeatedEvents(clock)

    first = [repeated.occurred("a") for _ in range(4)]
    clock.now_ms += INTERVAL_MS
    second = [repeated.occurred("a") for _ in range(2)]
    clock.now_ms += INTERVAL_MS

    assert [0, None, None, None] == first
    assert [3, None] == second
    assert 1 == repeated.occurred("a")


def test_keys_are_logged_independently() -> None:
    """
    During the interval of a key, events with other keys are logged: those of another client, or about another mistake
    of the same client.
    """
    repeated = RepeatedEvents(HandClock())

    assert [0, 0, None] == [repeated.occurred(key) for key in ("a", "b", "a")]


def test_many_keys_at_once_are_rate_limited_and_logged_later() -> None:
    """
    If the rate limit drops the event of a key, the key's next event is logged once the rate limit's interval has
    passed.
    """
    clock = HandClock()
    repeated = RepeatedEvents(clock)

    logged = [repeated.occurred(key) is not None for key in range(LOGGED_MAX + 1)]
    clock.now_ms += RATE_INTERVAL_MS

    assert [True] * LOGGED_MAX + [False] == logged
    assert 0 == repeated.occurred(LOGGED_MAX)


def test_the_oldest_keys_are_forgotten() -> None:
    """
    KEYS_MAX bounds the memory.  The key that was logged longest ago is forgotten, and its next event is logged as new.
    """
    clock = HandClock()
    repeated = RepeatedEvents(clock)
    repeated.occurred("first")
    repeated.occurred("first")
    for key in range(KEYS_MAX):
        clock.now_ms += RATE_INTERVAL_MS
        repeated.occurred(key)

    assert 0 == repeated.occurred("first")
