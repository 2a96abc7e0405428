"""The options of an archive refuse values that cannot work."""

from pathlib import Path

import pytest

from tidemill.spark.pipelines.archive.options import ArchiveOptions
from tidemill.spark.pipelines.archive.pipeline import PIPELINE
from tidemill.spark.pipelines.frame.option_values import build


def options(**values):
    return build(ArchiveOptions, {"topic": "t", "to": "a", **values})


def test_the_defaults_are_documented():
    """
    By default, an archive has files of 128 MiB for each hour, and a run fails if records are lost.
    """
    given = options()

    assert PIPELINE.options is ArchiveOptions
    assert (128 << 20, "date,hour", "fail") == (given.target_size, given.partition_by.value, given.on_data_loss.value)
    assert {
        "topic": "t",
        "to": str(Path("a").absolute()),
        "format": "parquet",
        "partition_by": "date,hour",
    } == given.identity


def test_a_file_address_is_a_path():
    """
    An address `file:///…` refers to the same directory as the path alone.
    """
    assert Path("/data/a") == options(to="file:///data/a").directory


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"to": "s3://bucket/a"}, "to=s3://bucket/a: .* pass a path"),
        ({"to": "/a[1]"}, r"to=/a\[1\]: Spark takes"),
        ({"batch_records": 0}, "batch_records=0: .* pass more"),
        ({"target_size": "0"}, "target_size=0: not a size"),
        ({"poll_interval": "0s"}, "poll_interval=0:00:00: it must be above 0"),
        ({"partition_by": "hour"}, "partition_by=hour: .*choose one of date,hour, date, none"),
        ({"on_data_loss": "ignore"}, "choose one of fail, skip, report"),
        ({"iceberg_property": ["uri=x"]}, "iceberg_property is used only with format=iceberg"),
        ({"format": "iceberg", "to": "flights"}, "to=flights: an Iceberg table has a namespace"),
        ({"format": "iceberg", "to": "a.b", "iceberg_property": ["uri"]}, "iceberg_property=uri: write KEY=VALUE"),
    ],
)
def test_wrong_options_are_refused(values, sentence):
    """
    The error for an invalid option names the option, its value and the fix.
    """
    with pytest.raises(ValueError, match=sentence):
        options(**values)
