"""The JSON of a batch's manifest entry, and the order of entries."""

import json

import pytest

from tidemill.spark.pipelines.archive import batch_entry
from tidemill.spark.pipelines.archive.batch_entry import (
    ArchiveRefused,
    BatchEntry,
    DataFile,
    LostOffsets,
    check_follows,
)


def entry(number=0, ranges=None):
    return BatchEntry(
        number=number,
        batch_id="ab12",
        topic="flights",
        topic_id="ot_7obTDQB6bVuTKzx8fmg",
        partition_by="date,hour",
        written_at="2026-11-25T21:59:41+00:00",
        ranges={10: (0, 2), 2: (5, 9)} if ranges is None else ranges,
        lost=(LostOffsets(partition=2, start=5, end=6),),
        file_count=1,
        rows=5,
        bytes=4_000,
        stored_bytes=6_000,
        schema="key BINARY",
        files=(DataFile(path="a.parquet", bytes=4_000, rows=5, timestamp_ms_min=1, timestamp_ms_max=None),),
    )


def test_an_entry_has_its_documented_form():
    """
    The JSON has the format that docs/formats/pipelines.md describes, and decodes to the same entry.
    """
    text = (
        '{"format": 1, "number": 0, "batch_id": "ab12", "topic": "flights", "topic_id": "ot_7obTDQB6bVuTKzx8fmg", '
        '"partition_by": "date,hour", "written_at": "2026-11-25T21:59:41+00:00", "file_count": 1, "rows": 5, '
        '"bytes": 4000, "stored_bytes": 6000, "schema": "key BINARY", "ranges": {"2": [5, 9], "10": [0, 2]}, '
        '"lost": [{"partition": 2, "start": 5, "end": 6}], "files": [{"path": "a.parquet", "bytes": 4000, "rows": 5, '
        '"timestamp_ms_min": 1, "timestamp_ms_max": null}]}'
    )

    assert text == json.dumps(entry().to_json())
    assert entry() == batch_entry.from_text(text, "here")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "here is damaged .* restore it"),
        ("[]", "here is damaged"),
        ("{}", "here is damaged"),
        ('{"format": 1}', "here is damaged"),
        ('{"format": 2}', "here has format 2, and this version of Tidemill reads 1"),
    ],
)
def test_a_damaged_entry_is_refused(text, sentence):
    """
    An archive whose newest entry cannot be read is refused, so no run adds batches to it.
    """
    with pytest.raises(ArchiveRefused, match=sentence):
        batch_entry.from_text(text, "here")


@pytest.mark.parametrize(
    ("number", "ranges", "sentence"),
    [
        (2, {0: (7, 8)}, "there has batch 2 where batch 1 is due"),
        (1, {0: (6, 8)}, "there begins at offset 6 of partition 0, and batch 0 ends at 7"),
        (1, {}, "there begins at offset None of partition 0"),
    ],
)
def test_entries_follow_each_other(number, ranges, sentence):
    """
    A missing entry, or one that belongs to another archive, is detected.
    """
    before = entry(0, {0: (3, 7)})

    check_follows(before, None, "here")
    check_follows(entry(1, {0: (7, 7), 1: (0, 3)}), before, "here")
    with pytest.raises(ArchiveRefused, match=sentence):
        check_follows(entry(number, ranges), before, "there")
