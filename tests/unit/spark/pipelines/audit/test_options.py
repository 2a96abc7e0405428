"""Options of an audit that do not fit together."""

from typing import Any

import pytest

from tidemill.spark.pipelines.audit.options import AuditOptions
from tidemill.spark.pipelines.frame.option_values import build


def options(**values: Any) -> AuditOptions:
    return build(AuditOptions, {"topic": "a", "target": "b"} | values)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"target": None}, "target and archive: neither is given"),
        ({"archive": "dir"}, "target and archive: both are given"),
        ({"target": "a"}, "target=a is the topic itself"),
        ({"range_records": 0}, "range_records=0 is below 1"),
        ({"differences": 0}, "differences=0 is below 1"),
        ({"by": "value"}, "by=value: not known; choose one of offset, key"),
        ({"ignore": "order"}, "ignore=order: the order is that of the offsets; use it with by=key"),
        ({"target_start": "-10"}, "target_start=-10: use it with a target topic and by=key only"),
        ({"target": None, "archive": "d", "by": "key", "target_end": "-10"}, "target_end=-10: use it with a target"),
        ({"complete": True}, "complete=true: use it with an archive and by=offset only"),
        ({"start": "yesterday"}, "start=yesterday is not a position: write for example earliest"),
        ({"by": "key", "target_end": "soon"}, "target_end=soon is not a position"),
    ],
)
def test_options_that_do_not_fit_are_refused(values: dict[str, Any], error: str) -> None:
    """
    Wrong options are refused before Spark starts, with an error that names the option, its value and the fix.
    """
    with pytest.raises(ValueError, match=error):
        options(**values)


def test_what_is_compared_is_the_identity_of_an_audit() -> None:
    """
    A run with other options does not resume an audit, unless only the number of differences to show has changed.
    """
    plain = options()

    assert plain.identity == options(differences=5).identity
    for other in ({"target": "c"}, {"by": "key"}, {"range_records": 5}, {"ignore": "headers"}, {"end": "-5"}):
        assert plain.identity != options(**other).identity
    repeated = {"ignore": ("timestamp", "headers")}, {"ignore": ("headers", "timestamp")}
    assert options(**repeated[0]).identity == options(**repeated[1]).identity
