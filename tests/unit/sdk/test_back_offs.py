"""The back-offs of workers."""

from collections.abc import Callable

import pytest

from tidemill.model.back_off import BackOff
from tidemill.sdk.back_offs import constant, exponential, linear


@pytest.mark.parametrize(
    ("back_off", "expected"),
    [
        (constant("2s"), [2_000, 2_000, 2_000, 2_000]),
        (linear("1s"), [1_000, 2_000, 3_000, 4_000]),
        (linear("1s", step="5s", max="8s"), [1_000, 6_000, 8_000, 8_000]),
        (exponential("1s", max="5s", jitter=0), [1_000, 2_000, 4_000, 5_000]),
        (exponential("1s", factor=3, jitter=0), [1_000, 3_000, 9_000, 27_000]),
    ],
)
def test_the_delay_grows_with_the_attempts(back_off: BackOff, expected: list[int]) -> None:
    assert expected == [back_off.delay_ms(attempt, lambda: 0.5) for attempt in (1, 2, 3, 4)]


def test_jitter_leaves_out_a_random_part() -> None:
    back_off = exponential("10s", jitter=0.5)

    assert (10_000, 5_000) == (back_off.delay_ms(1, lambda: 0.0), back_off.delay_ms(1, lambda: 1.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: constant("0s"),
        lambda: linear("1s", step="0s"),
        lambda: exponential("1s", factor=0.5),
        lambda: exponential("1s", jitter=2),
        lambda: exponential("1s", max="8d"),
    ],
)
def test_an_illegal_back_off_is_refused(make: Callable[[], BackOff]) -> None:
    with pytest.raises(ValueError, match="use "):
        make()
