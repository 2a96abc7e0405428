"""How many files a batch is written to."""

from dataclasses import replace

from tests.unit.spark.pipelines.archive.test_batch_entry import entry
from tidemill.spark.pipelines.archive.file_plan import TASKS_MAX, FilePlan, plan_files

MIB = 1 << 20


def test_the_stored_bytes_are_divided_by_the_target_size():
    """
    Without an earlier batch, the files are assumed to be as large as the stored bytes of the topic.
    """
    assert FilePlan(task_count=3, rows_per_file_max=500, estimated_bytes=3_000) == plan_files(1_200, 3_000, 1_000, None)
    assert 1 == plan_files(10, 100, 128 * MIB, None).task_count


def test_the_batch_before_corrects_the_estimate():
    """
    If the records of the previous batch took half as many bytes in files as in the topic, half as many files are
    planned.  Batches that are too small are not used for the estimate.
    """
    half = replace(entry(), bytes=5 * MIB, stored_bytes=10 * MIB)
    small = replace(entry(), bytes=50_000, stored_bytes=1_000)

    assert 2 == plan_files(1_000, 4 * MIB, MIB, half).task_count
    assert 4 == plan_files(1_000, 4 * MIB, MIB, small).task_count


def test_a_plan_has_bounds():
    """
    Neither a wrong estimate nor an empty batch leads to an absurd number of files.
    """
    wrong = replace(entry(), bytes=1_000 * MIB, stored_bytes=MIB)

    assert TASKS_MAX == plan_files(10, 1 << 50, 1, None).task_count
    assert 50 * MIB == plan_files(1_000, MIB, MIB, wrong).estimated_bytes
    assert 1 == plan_files(0, 0, MIB, None).task_count
