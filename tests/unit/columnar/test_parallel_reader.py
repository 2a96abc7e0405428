"""Reading several partitions at once from fake brokers: order, connections, bounds, failures and closing."""

import threading
from collections.abc import Iterator
from threading import Condition, Event
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.client.fake_cluster import FakeCluster, Partition
from tidemill.columnar import batch_plan, read_ahead, source_options
from tidemill.columnar.data_loss import DataLossError
from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.parallel_reader import ParallelReader
from tidemill.columnar.source_options import SourceOptions

BATCH_BYTES = 40_000  # a fetch of 64 KiB, the smallest one, returns one such batch
BATCHES = 20
COLUMNS = ("partition", "offset", "value")


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(broker_count=2) as running:
        running.topics["t"].partitions = {number: Partition(leader=1 + number % 2) for number in range(3)}
        for partition in running.topics["t"].partitions.values():
            for number in range(BATCHES):
                partition.append_records([b"%d" % number, bytes(BATCH_BYTES)])
        yield running


def options_for(cluster: FakeCluster, **options: str) -> SourceOptions:
    servers = ",".join(f"{one.host}:{one.port}" for one in cluster.settings().bootstrap)
    fast = {"kafka.retry.backoff.ms": "1", "kafka.fetch.max.bytes": "65536"}
    return source_options.for_batch({"kafka.bootstrap.servers": servers, "subscribe": "t", **fast, **options})


def reader_of(cluster: FakeCluster, options: dict[str, str] | None = None, **bounds: int) -> ParallelReader:
    parsed = options_for(cluster, **(options or {}))
    return ParallelReader(parsed, COLUMNS, batch_plan.plan(parsed), **bounds)


def offsets(batches: Iterator[pa.RecordBatch]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for rows in batches:
        for partition, offset in zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True):
            found.setdefault(partition, []).append(offset)
    return found


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("tidemill-read")]


@pytest.mark.parametrize("threads_max", [1, 2, 8])
@pytest.mark.parametrize("options", [{}, {"maxrecordsperpartition": "7"}], ids=["whole", "divided"])
def test_each_partition_is_read_in_order(cluster: FakeCluster, threads_max: int, options: dict[str, str]) -> None:
    """
    Every record is read once, in the order of the offsets of its partition, however many threads and ranges there are.
    """
    reader = reader_of(cluster, options, threads_max=threads_max)

    assert {number: list(range(2 * BATCHES)) for number in range(3)} == offsets(reader.record_batches())
    assert [] == threads()


def test_partitions_are_read_at_the_same_time(cluster: FakeCluster) -> None:
    """
    With three threads, a broker gets a Fetch for each of three partitions before it has responded to one of them.
    """
    asked: set[int] = set()
    all_asked = Event()

    def wait_for_all(broker_id: int, name: str, request: Any) -> None:
        if name == "fetch":
            asked.add(request.topics[0].partitions[0].partition)
            if len(asked) == 3:
                all_asked.set()
            assert all_asked.wait(10)

    cluster.hook = wait_for_all

    assert 3 * 2 * BATCHES == sum(map(len, offsets(reader_of(cluster).record_batches()).values()))


def test_a_slow_caller_bounds_what_is_fetched(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    While the caller works on the first rows, a thread fetches only until the read-ahead is full.
    """
    blocked = Event()

    class Watched(Condition):
        def wait(self, timeout: float | None = None) -> bool:
            if threading.current_thread() in threads():
                blocked.set()
            return super().wait(timeout)

    monkeypatch.setattr(read_ahead, "Condition", Watched)
    parsed = options_for(cluster)
    reader = ParallelReader(parsed, COLUMNS, batch_plan.plan(parsed)[:1], read_ahead_bytes_max=2 * BATCH_BYTES)

    batches = reader.record_batches()
    rows = [next(batches)]
    assert blocked.wait(10)
    fetched = cluster.count("fetch")
    rows += batches

    # At most five batches are fetched: one was taken, one or two wait in the queue, one does not fit into it, and one
    # is in flight.
    assert fetched <= 5
    assert BATCHES <= cluster.count("fetch")
    assert list(range(2 * BATCHES)) == offsets(iter(rows))[0]


def test_closing_early_ends_the_threads(cluster: FakeCluster) -> None:
    """
    Closing the iterator ends the threads, and nothing more is fetched.
    """
    batches = reader_of(cluster, read_ahead_bytes_max=1).record_batches()
    next(batches)
    assert 3 == len(threads())

    batches.close()  # type: ignore[attr-defined]

    fetched = cluster.count("fetch")
    assert [] == threads()
    assert fetched < 3 * BATCHES


def test_a_lost_partition_ends_the_read(cluster: FakeCluster) -> None:
    """
    If records were removed after the read was planned, DataLossError is raised without a chained exception, and all
    threads end.
    """
    parsed = options_for(cluster)
    ranges = batch_plan.plan(parsed)
    cluster.topics["t"].partitions[1].log_start_offset = 4
    batches = ParallelReader(parsed, COLUMNS, ranges).record_batches()

    with pytest.raises(DataLossError, match=r"^offset 0 of t-1 is out of range") as raised:
        list(batches)

    assert raised.value.__cause__ is raised.value.__context__ is None
    assert [] == threads()


def test_an_empty_plan_has_no_rows_and_no_threads(cluster: FakeCluster) -> None:
    """
    A reader of an empty plan yields no record batches.
    """
    work: list[OffsetRange] = []

    assert [] == list(ParallelReader(options_for(cluster), COLUMNS, work).record_batches())
