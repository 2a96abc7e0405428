"""Silence: how long a broker has been silent."""

from collections.abc import Iterable

from tidemill.rebalance.silence import Silence

ACTIVE_AFTER_MS = 30_000


def watched(silence: Silence, seconds: Iterable[int], period_s: int | None = None) -> Silence:
    """Observe the broker at each second: dead, or up and down by turns of `period_s`."""
    for second in seconds:
        is_live = period_s is not None and (second // period_s) % 2 == 1
        silence.observe(is_live, second * 1_000, active_after_ms=ACTIVE_AFTER_MS)
    return silence


def test_silence_counts_from_when_the_broker_was_last_heard() -> None:
    """A broker that was well for long is silent from the moment in which it is heard no more."""
    silence = Silence(0)
    for second in range(100):
        silence.observe(True, second * 1_000, active_after_ms=ACTIVE_AFTER_MS)
    watched(silence, range(100, 200))

    assert (100_000, 0) == (silence.silent_ms(199_000), silence.live_ms(199_000))


def test_a_broker_that_comes_and_goes_is_silent_all_the_time() -> None:
    """A broker that flaps every 20 s never was live for 30 s, so that it is replaced in the end."""
    silence = watched(Silence(0), range(300), 20)

    assert 300_000 == silence.silent_ms(300_000)


def test_a_broker_that_is_live_for_long_enough_is_silent_no_more() -> None:
    """Silence ends, all at once, when the broker was live without a gap."""
    silence = watched(Silence(0), range(100))
    for second in range(100, 131):
        assert second * 1_000 == silence.silent_ms(second * 1_000)
        silence.observe(True, second * 1_000, active_after_ms=ACTIVE_AFTER_MS)

    assert (0, 30_000) == (silence.silent_ms(130_000), silence.live_ms(130_000))


def test_a_new_controller_does_not_begin_at_zero() -> None:
    """The record that a broker is silent says since when."""
    silence = watched(Silence(500_000, silent_since_ms=300_000), range(500, 560))

    assert 260_000 == silence.silent_ms(560_000)
