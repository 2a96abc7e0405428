"""The options of a replay."""

from datetime import timedelta

import pytest

from tidemill.spark.pipelines.frame.option_values import build
from tidemill.spark.pipelines.replay.options import ReplayOptions


def options(**values):
    return build(ReplayOptions, {"topic": "t", "to": "u", **values})


@pytest.mark.parametrize(
    ("text", "shift"),
    [("7d", timedelta(days=7)), ("-90m", -timedelta(minutes=90)), ("+5s", timedelta(seconds=5))],
)
def test_a_shift_has_a_sign(text, shift):
    assert shift == options(shift=text).shift


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"start": "soon"}, "start=soon is not a position: write for example earliest"),
        ({"end": "soon"}, "end=soon is not a position: write for example earliest"),
        ({"shift": "7 weeks"}, "shift=7 weeks: not a duration; write for example"),
        ({"speed": 0.0}, "speed=0.0 is not above 0: write for example 2.0, or leave it out"),
        ({"speed": float("nan")}, "speed=nan is not above 0"),
        ({"rate_records": 0}, "rate_records=0 is not above 0: write a whole number from 1"),
        ({"step_records": -1}, "step_records=-1 is not above 0"),
    ],
)
def test_a_wrong_option_is_refused_by_name(values, sentence):
    with pytest.raises(ValueError) as failure:
        options(**values)

    assert str(failure.value).startswith(sentence)


def test_runs_on_one_state_may_differ_only_in_how_fast_they_are():
    first = options().identity(is_continuous=False)

    assert first == options(speed=2.0, rate_records=5, step_records=9).identity(is_continuous=False)
    others = [{"start": "-5"}, {"end": "-5"}, {"filter": "offset > 5"}, {"shift": "1s"}, {"keep_partitions": True}]
    for other in others:
        assert first != options(**other).identity(is_continuous=False)
    assert first != options().identity(is_continuous=True)
