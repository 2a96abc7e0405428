"""The four forms of `--from`."""

import pytest

from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.start_position import StartPosition, parse


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", StartPosition()),
        ("latest", StartPosition(latest=True)),
        ("offset:12", StartPosition(offset=12)),
        ("time:1970-01-01T00:00:01.500Z", StartPosition(timestamp_ms=1500)),
        ("time:1970-01-01T01:00:00+01:00", StartPosition(timestamp_ms=0)),
    ],
)
def test_a_start_is_a_keyword_an_offset_or_a_timestamp(text: str, position: StartPosition) -> None:
    """
    A start is a keyword, an offset or a timestamp, which includes a time zone and so does not depend on the machine's.
    """
    parsed = parse(text)

    assert position == parsed


@pytest.mark.parametrize(
    "text", ["", "newest", "offset:", "offset:-1", "offset:٣", "time:x", "time:2026-01-01T00:00:00"]
)
def test_any_other_start_is_a_usage_error_with_an_example(text: str) -> None:
    """
    Any other start is a usage error whose message shows a valid value.
    """
    with pytest.raises(Failed, match=r"--from .*(for example|add Z)") as caught:
        parse(text)

    assert ExitCode.USAGE == caught.value.exit_code
