"""The options of a snapshot."""

import pytest

from tidemill.spark.pipelines.frame.option_values import build
from tidemill.spark.pipelines.snapshot.options import SnapshotOptions


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"to": "s3://bucket/planes"}, "to=s3://bucket/planes is an address: name a directory that the driver"),
        ({"step_records": 0}, "step_records=0 is not above 0: write a whole number from 1"),
        ({"keep_versions": 0}, "keep_versions=0 is not above 0"),
        ({"interval": "soon"}, "interval=soon: not a duration"),
    ],
)
def test_a_wrong_option_is_refused_by_name(values, sentence):
    with pytest.raises(ValueError) as failure:
        build(SnapshotOptions, {"topic": "t", "to": "planes", **values})

    assert str(failure.value).startswith(sentence)
