"""Back-off policies: which texts are accepted, and the delays that follow from them."""

import pytest

from tidemill.model.back_off import DELAY_MS_MAX, NO_BACK_OFF, BackOff, Growth, parse_back_off

WEEK = 7 * 24 * 3_600_000


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", NO_BACK_OFF),
        ("  ", NO_BACK_OFF),
        ('{"kind": "constant", "first": 250}', BackOff(growth=Growth.CONSTANT, first_ms=250)),
        (
            '{"kind": "linear", "first": "10s", "step": "500ms", "max": "1m"}',
            BackOff(growth=Growth.LINEAR, first_ms=10_000, step_ms=500, max_ms=60_000),
        ),
        ('{"kind": "linear", "first": "10s"}', BackOff(growth=Growth.LINEAR, first_ms=10_000, step_ms=10_000)),
        (
            '{"kind": "exponential", "first": "1s", "factor": 3, "max": "7d", "jitter": 0.5}',
            BackOff(growth=Growth.EXPONENTIAL, first_ms=1_000, factor=3.0, max_ms=WEEK, jitter=0.5),
        ),
        (
            '{"jitter": 1, "first": "2h", "kind": "exponential"}',
            BackOff(growth=Growth.EXPONENTIAL, first_ms=7_200_000, factor=2.0, jitter=1.0),
        ),
    ],
)
def test_a_policy_is_read_from_json(text: str, policy: BackOff) -> None:
    """
    A policy is a JSON object.  A duration is a number of milliseconds or a text with a unit; the step of linear growth
    is by default the first delay, the factor of exponential growth 2, and the largest delay 7 days.
    """
    assert policy == parse_back_off(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10s", "must be empty or a JSON object"),
        ("[1]", "must be empty or a JSON object"),
        ('{"kind": "constant", "first": 1', "must be empty or a JSON object"),
        ("[" * 30_000, "at most 1000 characters"),
        ("{}", "the field kind must be one of constant, linear, exponential"),
        ('{"kind": "none", "first": 1}', "the field kind must be one of"),
        ('{"kind": ["linear"], "first": 1}', "the field kind must be one of"),
        ('{"kind": "constant"}', "the field first is missing"),
        ('{"kind": "constant", "first": 1, "base": 2}', "unknown field 'base'"),
        ('{"kind": "constant", "first": 1, "step": 2}', "unknown field 'step': the fields of kind constant are"),
        ('{"kind": "linear", "first": 1, "factor": 2}', "unknown field 'factor'"),
        ('{"kind": "constant", "first": 0}', "the field first must be a duration"),
        ('{"kind": "constant", "first": true}', "the field first must be a duration"),
        ('{"kind": "constant", "first": 1.5}', "the field first must be a duration"),
        ('{"kind": "constant", "first": "10 years"}', "the field first must be a duration"),
        ('{"kind": "constant", "first": "1s", "max": "8d"}', "the field max must be a duration from 1 ms to 7 days"),
        ('{"kind": "linear", "first": "1s", "step": "-1s"}', "the field step must be a duration"),
        ('{"kind": "exponential", "first": 1, "factor": 0.5}', "the field factor must be a number from 1 to 1000"),
        ('{"kind": "exponential", "first": 1, "factor": NaN}', "the field factor must be a number"),
        ('{"kind": "constant", "first": 1, "jitter": 1.1}', "the field jitter must be a number from 0 to 1"),
        ('{"kind": "constant", "first": 1, "jitter": "0.1"}', "the field jitter must be a number"),
    ],
)
def test_another_text_is_refused(text: str, says: str) -> None:
    """A text that is not a policy is refused, with a message that names the field and what it must be."""
    with pytest.raises(ValueError) as refused:
        parse_back_off(text)

    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (NO_BACK_OFF, [0, 0, 0, 0]),
        (BackOff(growth=Growth.CONSTANT, first_ms=100), [100, 100, 100, 100]),
        (BackOff(growth=Growth.LINEAR, first_ms=100, step_ms=50), [100, 150, 200, 250]),
        (BackOff(growth=Growth.LINEAR, first_ms=100, step_ms=50, max_ms=160), [100, 150, 160, 160]),
        (BackOff(growth=Growth.EXPONENTIAL, first_ms=100), [100, 200, 400, 800]),
        (BackOff(growth=Growth.EXPONENTIAL, first_ms=100, factor=1.5, max_ms=220), [100, 150, 220, 220]),
        (BackOff(growth=Growth.CONSTANT, first_ms=100, jitter=0.2), [90, 90, 90, 90]),
    ],
)
def test_the_delay_follows_from_the_delivery(policy: BackOff, delays: list[int]) -> None:
    """
    The first delivery is followed by the first delay.  Jitter subtracts at most its fraction of the delay, here half of
    that.
    """
    assert delays == [policy.delay_ms(count, lambda: 0.5) for count in (1, 2, 3, 4)]


def test_the_largest_delay_bounds_every_delivery() -> None:
    """A delay stays within the maximum for the largest delivery count and factor."""
    policy = parse_back_off('{"kind": "exponential", "first": "7d", "factor": 1000}')

    assert DELAY_MS_MAX == policy.delay_ms(65_535, lambda: 0.0)
