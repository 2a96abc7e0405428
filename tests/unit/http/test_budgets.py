"""What the requests of `/v1` take of the broker together is bounded, and given back."""

import pytest

from tidemill.http.v1.budgets import (
    BYTES_MAX,
    FREE_BYTES,
    RESPONSE_BYTES_MAX,
    WAITED_PARTITIONS_MAX,
    WAITS_MAX,
    Budgets,
    Exhausted,
    Taken,
)


def test_so_many_requests_wait_and_no_more() -> None:
    """
    A request beyond the most that may wait is refused, until one of them has ended.
    """
    budgets = Budgets()
    with Taken(budgets) as first:
        first.wait()
        for _ in range(WAITS_MAX - 1):
            Taken(budgets).wait()
        with pytest.raises(Exhausted, match=f"{WAITS_MAX} streams and long polls"):
            Taken(budgets).wait()

    Taken(budgets).wait()


def test_waits_are_bounded_by_their_partitions_too() -> None:
    """
    A stream of many partitions has a task for each.
    """
    budgets = Budgets()
    Taken(budgets).wait(WAITED_PARTITIONS_MAX - 1)

    with pytest.raises(Exhausted):
        Taken(budgets).wait(2)
    Taken(budgets).wait(1)


def test_large_bodies_share_a_budget_and_small_ones_pass() -> None:
    """
    The first bytes of each body are free; the others are taken as they arrive, and given back when they are written.
    """
    budgets = Budgets()
    large = Taken(budgets)
    large.body(BYTES_MAX // 2)
    large.body(BYTES_MAX + FREE_BYTES)

    with pytest.raises(Exhausted, match=f"{BYTES_MAX} bytes"):
        Taken(budgets).body(FREE_BYTES + 1)
    Taken(budgets).body(FREE_BYTES)
    large.body(FREE_BYTES)
    Taken(budgets).body(BYTES_MAX + FREE_BYTES)


def test_a_body_that_takes_more_when_it_is_decoded_must_be_alone() -> None:
    """
    Alone, it may take more than the budget, because no other time would be better.
    """
    budgets = Budgets()
    with Taken(budgets) as dense, Taken(budgets) as other:
        dense.body(1 << 20)
        other.body(FREE_BYTES + 1)
        with pytest.raises(Exhausted, match="other requests have 1 bytes"):
            dense.decoded(BYTES_MAX)
        other.decoded(1 << 10)
        other.body(0)
        dense.decoded(BYTES_MAX)
        with pytest.raises(Exhausted):
            other.body(FREE_BYTES + 1)

    assert Budgets() == budgets


def test_a_response_may_be_larger_than_the_budget_if_it_is_the_only_one() -> None:
    """
    A record of any size can be read; further responses wait until it has been taken.
    """
    budgets = Budgets()
    with Taken(budgets) as large:
        large.response(RESPONSE_BYTES_MAX * 2)
        with pytest.raises(Exhausted):
            Taken(budgets).response(1)
        large.give_back(RESPONSE_BYTES_MAX * 2)
        Taken(budgets).response(1)

    assert 1 == budgets.response_bytes


def test_a_response_that_must_be_sent_leaves_less_for_others() -> None:
    """It counts once, however much of it has been taken before: its characters may be escaped in JSON."""
    budgets = Budgets()
    with Taken(budgets) as taken:
        taken.response(RESPONSE_BYTES_MAX)
        taken.hold(RESPONSE_BYTES_MAX * 2)
        taken.hold(1)
        assert RESPONSE_BYTES_MAX * 2 == budgets.response_bytes
        with pytest.raises(Exhausted):
            Taken(budgets).response(0)

    assert 0 == budgets.response_bytes


def test_everything_is_given_back() -> None:
    """
    At the end of a request, nothing of what it has taken is missing.
    """
    budgets = Budgets()
    with pytest.raises(ValueError), Taken(budgets) as taken:
        taken.wait(3)
        taken.body(BYTES_MAX)
        taken.response(7)
        raise ValueError

    assert Budgets() == budgets
