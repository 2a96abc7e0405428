"""How the driver decides on a write from the reports of its tasks."""

import pickle

import pytest

from tidemill.columnar.topic_writer import WriteSummary
from tidemill.model.partition import TopicPartition
from tidemill.spark.write_commit import MixedReports, TaskReport, decide

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def report(task: int, offsets: dict[TopicPartition, tuple[int, int]], **fields: object) -> TaskReport:
    summary = WriteSummary(records=10, bytes=100, offsets=offsets)
    given = {"query_id": "q", "batch_id": 4, "task": task, "attempt": 0, "summary": summary, **fields}
    return TaskReport(**given)  # type: ignore[arg-type]


def test_the_decision_adds_up_the_reports_and_can_be_repeated():
    reports = [report(0, {P0: (5, 15)}), report(1, {P0: (12, 30), P1: (0, 10)})]

    decisions = [decide(reports), decide(pickle.loads(pickle.dumps(reports)))]  # noqa: S301 - our own bytes

    assert decisions[0] == decisions[1]
    assert (20, 200) == (decisions[0].records, decisions[0].bytes)
    assert {P0: (5, 30), P1: (0, 10)} == decisions[0].offsets
    assert 0 == decide([]).records


def test_reports_of_different_batches_or_missing_ones_are_refused():
    with pytest.raises(MixedReports, match="several writes"):
        decide([report(0, {}), report(1, {}, batch_id=5)])
    with pytest.raises(MixedReports, match="1 of 2 tasks"):
        decide([report(0, {}), None])
