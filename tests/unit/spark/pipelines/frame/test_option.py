"""Options of pipelines, given as text or as Python values."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.toy.counting_pipeline import CountingOptions, Order
from tidemill.spark.pipelines.frame.option import Option, options_of
from tidemill.spark.pipelines.frame.option_values import build

OPTIONS = {option.name: option for option in options_of(CountingOptions)}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("topic", "7", "7"),
        ("until", "7", 7),
        ("step_bytes", "2MiB", 2 << 20),
        ("pause", "90s", timedelta(seconds=90)),
        ("order", "down", Order.DOWN),
        ("mode", "slow", "slow"),
        ("is_loud", "true", True),
        ("limit", "0.5", 0.5),
    ],
)
def test_text_becomes_a_value_of_the_type(name: str, text: str, value: object) -> None:
    """
    Text is parsed by the option's own parser, or else according to the option's type.
    """
    built = build(CountingOptions, {"topic": "numbers", name: text})

    assert value == getattr(built, name)
    assert type(value) is type(getattr(built, name))


def test_an_option_may_be_repeated() -> None:
    """
    An option whose type is a tuple accepts either one value or several.
    """
    built = [build(CountingOptions, {"topic": "t", "label": label}).label for label in (["a", "b"], ("a",), "a,b")]

    assert [("a", "b"), ("a",), ("a,b",)] == built


def test_values_of_python_are_taken_unchanged() -> None:
    """
    A pipeline's function accepts values of the options' own types, such as a timedelta, without parsing them.
    """
    built = build(CountingOptions, {"topic": "t", "pause": timedelta(seconds=1), "limit": 2, "order": Order.DOWN})

    assert CountingOptions(topic="t", pause=timedelta(seconds=1), limit=2, order=Order.DOWN) == built


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"topic": "t", "untill": 1}, "option untill is unknown: did you mean until?"),
        ({"topic": "t", "zzz": 1}, "option zzz is unknown: choose one of topic, until, "),
        ({}, "option topic is missing: The topic that"),
        ({"topic": "t", "until": "x"}, "until=x: not a whole number; write digits"),
        ({"topic": "t", "limit": "x"}, "limit=x: not a number; write digits"),
        ({"topic": "t", "step_bytes": "x"}, "step_bytes=x: not a size; write for example "),
        ({"topic": "t", "pause": "10"}, "pause=10: not a duration; write for example "),
        ({"topic": "t", "order": "left"}, "order=left: not known; choose one of up, down"),
        ({"topic": "t", "mode": "left"}, "mode=left: not known; choose one of fast, slow"),
        ({"topic": "t", "is_loud": "yes"}, "is_loud=yes: neither true nor false; write one of them"),
        ({"topic": "t", "until": 0}, "until=0 is below 1: write at least 1"),
    ],
)
def test_a_wrong_value_is_refused_by_name(values: dict[str, object], error: str) -> None:
    """
    The error for an invalid option names the option, its value and the fix.
    """
    with pytest.raises(ValueError) as raised:
        build(CountingOptions, values)

    assert str(raised.value).startswith(error)


@pytest.mark.parametrize(("name", "value"), [("until", 1.5), ("until", True), ("topic", b"t"), ("is_loud", 1)])
def test_a_value_of_another_type_is_refused(name: str, value: object) -> None:
    """
    A value of the wrong type is refused before the run, because the run would fail later with an unrelated error.
    """
    with pytest.raises(TypeError, match=f"{name}=.* pass a "):
        build(CountingOptions, {"topic": "t", name: value})


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (lambda it: it.flag, ["--topic", "--until", "--step-bytes", "--pause", "--order", "--mode", "--is-loud"]),
        (lambda it: it.default_text, [None, "10", "1MiB", "10m", "up", "fast", "false"]),
        (lambda it: it.choices, [(), (), (), (), ("up", "down"), ("fast", "slow"), ()]),
        (lambda it: it.is_required, [True, False, False, False, False, False, False]),
    ],
)
def test_an_option_describes_itself(of: Callable[[Option], Any], expected: list[object]) -> None:
    """
    Commands show the name, the default and the choices of each option.
    """
    assert expected == [of(option) for option in OPTIONS.values()][:7]


def test_an_optional_or_repeated_option_has_the_type_of_one_value() -> None:
    """
    The type of an optional or repeated option is that of a single value, without None or the tuple.
    """
    found = [(OPTIONS[name].type, OPTIONS[name].is_repeatable) for name in ("limit", "label")]

    assert [(float, False), (str, True)] == found
