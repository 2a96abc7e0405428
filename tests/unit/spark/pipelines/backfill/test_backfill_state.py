"""The state of a backfill is read back as it was written, and its bytes are a documented format."""

import json
from pathlib import Path

from tidemill.spark.pipelines.backfill.backfill_state import BackfillPlan, BackfillState, Position
from tidemill.spark.pipelines.backfill.parts import Part
from tidemill.spark.pipelines.backfill.time_groups import FileGroup, SourceFile
from tidemill.spark.pipelines.frame.state_directory import StateDirectory

FILE = SourceFile(
    path="file:/data/a.csv", size=100, modified_ms=1_700_000_000_000, records=3, bytes=60, first_us=5, last_us=9,
    partitions={0: 1, 2: 2},
)  # fmt: skip
PLAN = BackfillPlan(
    schema={"type": "struct", "fields": []}, topic_id="C1D6nMZ1QgO_zmejeb13dQ", partition_count=3,
    part_records=2, groups=(FileGroup(files=(FILE,), is_sorted_first=True),), empty_files=("file:/data/b.csv",),
    then={0: 7, 1: 0},
)  # fmt: skip
PART = Part(
    paths=("file:/s/part-0.parquet",), is_sorted=True, records=3, bytes=60, first_us=5, last_us=9, partitions={0: 3}
)
POSITION = Position(group=1, part=2, parts=9, records=80, bytes=800, seconds=1.5, repeated_parts=1, begun_at={0: 4})


def state(path):
    return BackfillState(StateDirectory(path))


def test_nothing_is_known_before_the_first_run(tmp_path: Path):
    assert (None, Position(), None) == (state(tmp_path).plan(), state(tmp_path).position(), state(tmp_path).parts(0))
    assert [] == list(tmp_path.iterdir())


def test_what_is_kept_is_read_by_a_later_run(tmp_path: Path):
    """Partition numbers are read back as numbers, although JSON stores them as text."""
    state(tmp_path).keep_plan(PLAN)
    state(tmp_path).keep_position(POSITION)
    state(tmp_path).keep_parts(12, [PART])

    assert (PLAN, POSITION, [PART]) == (state(tmp_path).plan(), state(tmp_path).position(), state(tmp_path).parts(12))
    assert state(tmp_path).parts(1) is None


def test_the_files_have_the_documented_form(tmp_path: Path):
    """The files have the documented format, because a later version must be able to read them."""
    state(tmp_path).keep_plan(PLAN)
    state(tmp_path).keep_position(POSITION)
    state(tmp_path).keep_parts(12, [PART])

    assert {
        "path": "file:/data/a.csv", "size": 100, "modified_ms": 1_700_000_000_000, "records": 3, "bytes": 60,
        "first_us": 5, "last_us": 9, "partitions": {"0": 1, "2": 2},
    } == json.loads((tmp_path / "plan.json").read_text())["groups"][0]["files"][0]  # fmt: skip
    assert {"0": 4} == json.loads((tmp_path / "position.json").read_text())["begun_at"]
    assert ["parts"] == list(json.loads((tmp_path / "group-00012.json").read_text()))
    assert tmp_path / "sorted" / "group-00012" == state(tmp_path).sorted_directory(12)
