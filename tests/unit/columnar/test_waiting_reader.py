"""Planning and reading what waits, from fake brokers."""

from collections.abc import Iterator

import pytest

from tests.unit.client.fake_cluster import TOPIC_ID, FakeCluster, Partition, Topic
from tidemill.client import topic_kinds
from tidemill.client.failures import UnknownTopic
from tidemill.client.waiting_records import WaitingRecord
from tidemill.columnar import source_options, work_reader
from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.parallel_reader import ParallelReader
from tidemill.columnar.row_filter import Condition, RowFilter
from tidemill.columnar.source_options import SourceOptions
from tidemill.columnar.waiting_reader import WaitingPartition
from tidemill.peer import timer_list
from tidemill.wire.schema import Message


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        running.topics["t"] = Topic(kind="timer", partitions={it: Partition() for it in range(3)})
        running.topics["log"] = Topic()
        running.unlisted = {timer_list.API.key: timer_list.API}
        running.hook = listed
        yield running


def listed(broker_id: int, name: str, request: Message) -> Message | None:
    """Answer with two records for each partition."""
    if not isinstance(request, timer_list.Request):
        return None
    records = [
        WaitingRecord(arrival=it, due_ms=0, timestamp_ms=0, size_bytes=1, value=b"v" if request.has_values else None)
        for it in (request.partition, request.partition + 10)
    ]
    return timer_list.Response(end=100, records=records)


def options_for(cluster: FakeCluster, **options: str) -> SourceOptions:
    servers = ",".join(f"{one.host}:{one.port}" for one in cluster.settings().bootstrap)
    chosen = {} if options.keys() & {"assign", "subscribepattern"} else {"subscribe": "t"}
    return source_options.for_batch({"kafka.bootstrap.servers": servers, "records": "waiting", **chosen, **options})


def test_each_partition_is_work_of_its_own(cluster: FakeCluster):
    parsed = options_for(cluster)
    where = RowFilter((Condition("partition", "in", (0, 2)),))

    assert [WaitingPartition("t", it, TOPIC_ID) for it in range(3)] == work_reader.plan(parsed)
    assert [WaitingPartition("t", it, TOPIC_ID) for it in (0, 2)] == work_reader.plan(parsed, where)
    assert [WaitingPartition("t", 1, TOPIC_ID)] == work_reader.plan(options_for(cluster, assign='{"t": [1]}'))


def test_other_reads_are_planned_by_offsets(cluster: FakeCluster):
    cluster.partition.append_records([b"v"])

    assert [OffsetRange("t", 0, 0, 1, TOPIC_ID)] == work_reader.plan(options_for(cluster, records="any"))


def test_a_topic_that_is_no_timer_topic_is_refused_by_name(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(topic_kinds, "NEW_TOPIC_MS", 20)
    with pytest.raises(ValueError) as refused:
        work_reader.plan(options_for(cluster, subscribe="log,t"))
    assert str(refused.value) == (
        "records=waiting cannot read topic 'log': it is of kind log, and only timer topics delay records; create one "
        "with `tidemill topics create NAME --kind timer`, or leave the option out"
    )

    cluster.topics["log"].kind = None
    with pytest.raises(ValueError, match=r"'log': its broker does not report tidemill\.kind"):
        work_reader.plan(options_for(cluster, subscribepattern=".*"))
    with pytest.raises(UnknownTopic, match="topic 'missing'"):
        work_reader.plan(options_for(cluster, subscribe="missing"))


def test_the_rows_of_all_partitions_are_read_by_threads(cluster: FakeCluster):
    parsed = options_for(cluster)

    reader = ParallelReader(parsed, ["arrival", "partition", "value"], work_reader.plan(parsed))
    rows = sorted(tuple(row.values()) for batch in reader.record_batches() for row in batch.to_pylist())

    assert [(it, it, b"v") for it in range(3)] + [(10 + it, it, b"v") for it in range(3)] == rows


def test_values_are_fetched_only_if_the_column_is_read(cluster: FakeCluster):
    parsed = options_for(cluster)

    list(ParallelReader(parsed, ["arrival"], work_reader.plan(parsed)[:1]).record_batches())

    asked = [request for _, _, _, request in cluster.requests if isinstance(request, timer_list.Request)]
    assert [False] == [it.has_values for it in asked]
