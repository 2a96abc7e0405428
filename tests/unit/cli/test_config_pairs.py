"""KEY=VALUE on the command line."""

import pytest

from tidemill.cli.config_pairs import parse_pairs
from tidemill.cli.failure import ExitCode, Failed


def test_a_value_may_be_empty_or_have_equals_signs() -> None:
    """
    The first equals sign ends the key; everything after it is the value.
    """
    assert {"a": "", "b": "x=y"} == parse_pairs(["a=", "b=x=y"])


@pytest.mark.parametrize("texts", [["a"], ["=1"], ["a=1", "a=2"]])
def test_any_other_text_is_a_usage_error(texts: list[str]) -> None:
    """
    The error shows the text exactly as the user wrote it, together with its option.
    """
    with pytest.raises(Failed, match=r"--config '?(a|=1)") as caught:
        parse_pairs(texts, prefix="--config ")

    assert ExitCode.USAGE == caught.value.exit_code
