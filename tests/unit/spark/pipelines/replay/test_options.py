"""The options of a replay."""

from datetime import timedelta

import pytest

from tidemill.spark.pipelines.frame.option_values import build
from tidemill.spark.pipelines.replay.options import TO_NOW, ReplayOptions


def options(**values):
    return build(ReplayOptions, {"topic": "t", "to": "u", **values})


@pytest.mark.parametrize(
    ("text", "shift"),
    [("7d", timedelta(days=7)), ("-90m", -timedelta(minutes=90)), ("+5s", timedelta(seconds=5))],
)
def test_a_shift_has_a_sign(text, shift):
    assert shift == options(shift=text).shift
    assert shift == options(shift=shift, into_timer=True).shift_by


def test_a_shift_to_now_is_one_of_a_timer_topic():
    assert TO_NOW == options(shift=" to-now ", into_timer=True).shift
    assert TO_NOW == options(shift=TO_NOW, into_timer=True).shift
    with pytest.raises(ValueError, match="shift=to-now says when records of a timer topic are due: set into_timer"):
        options(shift="to-now")
    with pytest.raises(TypeError, match="shift=7 is a int: pass a timedelta, or its text"):
        options(shift=7)


def test_a_timer_topic_keeps_the_distances_itself():
    assert (2.0, None) == (options(speed=2.0).paced_speed, options(speed=2.0, into_timer=True).paced_speed)


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
    assert "into_timer" not in first  # so that a state of an older version is resumed


def test_runs_into_a_timer_topic_have_the_same_due_times():
    """
    The speed says when records are due, so later runs must have the same; without one, it is 1.
    """
    first = options(into_timer=True).identity(is_continuous=False)

    assert first == options(into_timer=True, speed=1, rate_records=5).identity(is_continuous=False)
    others = [{"into_timer": False}, {"speed": 2.0}, {"shift": "to-now"}, {"shift": "1s"}]
    for other in others:
        assert first != options(**{"into_timer": True, **other}).identity(is_continuous=False)
