"""What a user's function decides about the rows of a share group."""

import pyarrow as pa
import pytest
from pyspark.sql import Row

from tidemill.client.connection_settings import ConnectionSettings
from tidemill.client.share_client import Acknowledgement
from tidemill.columnar import receipt_decisions
from tidemill.columnar.receipt_decisions import Decisions
from tidemill.columnar.share_batch import Holder
from tidemill.model.partition import TopicPartition
from tidemill.spark import queue, queue_settings

OPTIONS = {"kafka.bootstrap.servers": "h:1", "mode": "share", "group": "g", "subscribe": "jobs"}


class Sent:
    """Stands in for the locks of a group.  Offset 99 is held by another member."""

    sent: list[tuple[str, Holder, list[int], str, int | None]]

    def __init__(self, cluster: object, group: str) -> None:
        self._group = group

    def resolve(self, holder: Holder, offsets: list[int], kind: Acknowledgement, delay_ms: int | None) -> int:
        Sent.sent.append((self._group, holder, sorted(offsets), kind.name, delay_ms))
        return sum(offset != 99 for offset in offsets)


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> Decisions:
    Sent.sent = []
    monkeypatch.setattr(receipt_decisions, "GroupLocks", Sent)
    monkeypatch.setattr(receipt_decisions, "cluster_of_process", lambda settings: None)
    connection: ConnectionSettings = queue_settings.checked(Rows(), OPTIONS)  # type: ignore[arg-type]
    return Decisions(connection)


class Rows:
    columns = ("value", "receipt")


def rows(*values: int) -> pa.RecordBatch:
    receipts = [f"jobs/0/{value}/m/g" for value in values]
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.int64()), "receipt": receipts})


def work(row: Row) -> Row:
    if row.value % 3 == 0:
        raise queue.Reject("no")
    if row.value % 3 == 1:
        raise queue.Retry("later", delay_seconds=row.value / 2)
    return Row(twice=row.value * 2)


def test_a_function_rejects_and_retries_rows(decisions):
    """
    The decisions about an Arrow batch are sent together: one request for each kind and delay.
    """
    kept, results = queue._decided(rows(0, 1, 2, 3, 5, 1), work, decisions)
    assert ([2, 4], [{"twice": 4}, {"twice": 10}]) == (kept, results)
    assert [] == Sent.sent

    assert 3 == decisions.send()
    holder = Holder(TopicPartition("jobs", 0), "m")
    assert [("g", holder, [0, 3], "REJECT", None), ("g", holder, [1], "RELEASE", 500)] == Sent.sent
    assert 0 == decisions.send()


def test_records_that_are_not_held_are_not_counted(decisions, caplog):
    """
    The record was decided before, by an earlier attempt of the task, or its lock has ended.
    """
    decisions.reject("jobs/0/99/m/g")
    decisions.reject("jobs/0/98/m/g")

    assert 1 == decisions.send()
    assert "1 of 2 records" in caplog.text


def test_another_exception_fails_the_task(decisions):
    def fail(row: Row) -> None:
        raise KeyError(row.value)

    with pytest.raises(KeyError):
        queue._decided(rows(7), fail, decisions)


def test_a_negative_delay_is_refused(decisions):
    def retry(row: Row) -> None:
        raise queue.Retry(delay_seconds=-1)

    with pytest.raises(ValueError, match="delay_seconds=-1 is negative: set 0 or more"):
        queue._decided(rows(7), retry, decisions)


def test_rows_without_receipts_are_refused():
    class Other:
        columns = ("value",)

    with pytest.raises(ValueError, match="the rows have no column 'receipt': pass rows of a stream with mode=share"):
        queue_settings.checked(Other(), OPTIONS)  # type: ignore[arg-type]


def test_the_address_is_required():
    with pytest.raises(
        ValueError, match=r"option 'kafka\.bootstrap\.servers' is missing: pass the options of the stream"
    ):
        queue_settings.checked(Rows(), {"group": "g"})  # type: ignore[arg-type]
