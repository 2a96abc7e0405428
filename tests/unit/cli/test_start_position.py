"""The values that `--from` and `--to` accept."""

import pytest

from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.start_position import StartPosition, parse

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", StartPosition()),
        ("latest", StartPosition(latest=True)),
        ("offset:12", StartPosition(offset=12)),
        ("time:1970-01-01T00:00:01.500Z", StartPosition(timestamp_ms=1500)),
        ("time:1970-01-01T01:00:00+01:00", StartPosition(timestamp_ms=0)),
        ("time:1969-12-31T23:59:59Z", StartPosition(timestamp_ms=0)),
        ("-30s", StartPosition(timestamp_ms=NOW_MS - 30_000)),
        ("-10m", StartPosition(timestamp_ms=NOW_MS - 600_000)),
        ("-2h", StartPosition(timestamp_ms=NOW_MS - 7_200_000)),
        ("-1d", StartPosition(timestamp_ms=NOW_MS - 86_400_000)),
        ("-99999d", StartPosition(timestamp_ms=0)),
    ],
)
def test_a_start_is_a_keyword_an_offset_or_a_timestamp(text: str, position: StartPosition) -> None:
    """
    A start is a keyword, an offset, a duration back from now, or a timestamp.  A timestamp must have a time zone, so
    that it does not depend on the machine's.  A time before 1970 counts as 1970, because negative timestamps have other
    meanings in Kafka.
    """
    parsed = parse(text, option="--from", now_ms=NOW_MS)

    assert position == parsed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "newest",
        "offset:",
        "offset:-1",
        "offset:٣",
        "time:x",
        "time:2026-01-01T00:00:00",
        "-10",
        "-m",
        "10m",
        "-1h30m",
        "-٣m",
    ],
)
def test_any_other_start_is_a_usage_error_with_an_example(text: str) -> None:
    """
    Any other start is a usage error whose message shows a valid value.
    """
    with pytest.raises(Failed, match=r"--from .*(for example|add Z)") as caught:
        parse(text, option="--from", now_ms=NOW_MS)

    assert ExitCode.USAGE == caught.value.exit_code
