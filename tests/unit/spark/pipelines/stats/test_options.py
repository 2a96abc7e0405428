"""Which options are refused, and what identifies a run."""

from datetime import timedelta
from pathlib import Path

import pytest

from tidemill.columnar.data_loss import OnDataLoss
from tidemill.spark.pipelines.stats.options import StatsOptions


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"start": "yesterday"}, "start=yesterday is not a position"),
        ({"end": "2013-01-01T00:00:00"}, "end=2013-01-01T00:00:00 has no time zone"),
        ({"to": "s3://bucket/x"}, "to=s3://bucket/x: charts and page are files"),
        ({"bucket": timedelta(milliseconds=1_500)}, "bucket=1500ms is no whole number of seconds"),
        ({"bucket": timedelta(0)}, "bucket=0s is no whole number"),
        ({"top": 0}, "top=0 is not from 1 to 10000"),
        ({"step_records": 0}, "step_records=0 is not above 0"),
        ({"on_data_loss": OnDataLoss.REPORT}, "on_data_loss=report has nowhere to report to"),
    ],
)
def test_a_bad_value_is_refused(options: dict[str, object], sentence: str) -> None:
    """
    The error for an invalid option names the option, its value and the fix.
    """
    given = {"topic": "t", "to": "out"} | options

    with pytest.raises(ValueError, match=sentence):
        StatsOptions(**given)  # type: ignore[arg-type]


def test_a_run_is_identified_by_what_it_counts() -> None:
    """
    The topic, the directory, the range and the bucket identify the run of a state directory; the number of listed keys
    may change.
    """
    one = StatsOptions(topic="t", to="out", top=5)

    assert {"topic", "to", "start", "end", "bucket"} == one.identity.keys()
    assert (str(Path("out").absolute()), "1m") == (one.identity["to"], one.identity["bucket"])
    assert Path("/out") == StatsOptions(topic="t", to="file:///out").directory
