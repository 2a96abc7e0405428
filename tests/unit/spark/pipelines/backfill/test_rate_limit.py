"""The token bucket that limits the rate of a task."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.spark.pipelines.backfill.rate_limit import RateLimit


@given(
    st.floats(0.1, 1e6),
    st.lists(st.tuples(st.integers(1, 10_000), st.floats(0, 100)), min_size=1, max_size=50),
)
def test_never_more_is_sent_than_the_rate_allows_since_the_start(per_second, steps):
    """If a sender waits as long as the limit says, it never exceeds the rate, whatever it does between two amounts."""
    limit, now, sent = RateLimit(per_second, 1_000.0), 1_000.0, 0
    for amount, elsewhere in steps:
        now += limit.wait_s(amount, now)
        sent += amount
        assert sent <= per_second * (now - 1_000.0) * (1 + 1e-9) + 1e-6
        now += elsewhere


def test_a_steady_sender_reaches_the_rate():
    """The time that the sending takes counts towards the wait, so a sender that is fast enough reaches the rate."""
    limit, now = RateLimit(1_000, 0.0), 0.0
    for _ in range(100):
        now += limit.wait_s(100, now) + 0.05

    assert 10.0 <= now <= 10.06


def test_the_time_of_a_long_stall_is_not_made_up_for():
    """After a broker's outage, a sender may send only one second's worth of records without waiting."""
    limit = RateLimit(100, 0.0)

    assert 0.0 == limit.wait_s(100, 60.0)
    assert 1.0 == limit.wait_s(100, 60.0)
