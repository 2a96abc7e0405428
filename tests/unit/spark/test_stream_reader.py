"""The stream reader's progress, its limits and its treatment of data loss."""

import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from tests.unit.client.fake_cluster import FakeCluster, Partition, Topic
from tidemill.columnar import source_options
from tidemill.columnar.data_loss import DataLossError
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.model.topic import TopicId
from tidemill.spark import row_schema
from tidemill.spark.stream_reader import JsonOffsets, StreamReader


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def cluster():
    with FakeCluster() as running:
        running.topics["t"] = Topic(partitions={0: filled(300), 1: filled(100)})
        yield running


def filled(count: int, *, epoch: int = 0) -> Partition:
    partition = Partition(epoch=epoch)
    for _ in range(count // 100):
        partition.append_records([b"x"] * 100)
    return partition


started: list[StreamReader] = []


@pytest.fixture(autouse=True)
def _stopped():
    """Stop every reader after the test, as Spark does."""
    yield
    while started:
        started.pop().stop()


def reader(cluster: FakeCluster, clock: Clock | None = None, **options: str) -> StreamReader:
    servers = ",".join(f"{host}:{port}" for host, port in cluster.settings().bootstrap)
    given = {
        "kafka.bootstrap.servers": servers,
        "kafka.default.api.timeout.ms": "2000",
        "kafka.retry.backoff.ms": "1",
        "subscribe": "t",
        **options,
    }
    if "subscribepattern" in given:
        del given["subscribe"]
    parsed = source_options.for_stream(given)
    started.append(StreamReader(parsed, row_schema.full(has_headers=False), OffsetReader, clock or Clock()))
    return started[-1]


def planned(stream: StreamReader, start: JsonOffsets, end: JsonOffsets) -> list[tuple[int, int, int]]:
    parts = [one.value for one in stream.partitions(start, end)]
    return [(one.partition, one.start_offset, one.end_offset) for one in parts]


def test_a_query_starts_at_the_configured_offsets(cluster):
    """
    A query starts at the configured offsets, by default at the end.  The JSON has the format of Spark's Kafka source.
    """
    begins = [
        reader(cluster, **options).initialOffset()
        for options in (
            {},
            {"startingoffsets": "earliest"},
            {"startingoffsets": '{"t":{"0":7,"1":-1}}'},
        )
    ]

    assert [{"t": {"0": 300, "1": 100}}, {"t": {"0": 0, "1": 0}}, {"t": {"0": 7, "1": 100}}] == begins


def test_offsets_for_some_partitions_only_are_refused(cluster):
    """
    Offsets that omit a partition are refused, because this is usually a mistake.
    """
    with pytest.raises(ValueError, match="you must specify all TopicPartitions"):
        reader(cluster, startingoffsets='{"t":{"0":7}}').initialOffset()


def test_a_trigger_reads_what_its_limit_allows(cluster):
    """
    A trigger reads as many offsets as its limit allows, shared in proportion to those pending, or all of them if there
    is no limit.
    """
    stream = reader(cluster, maxoffsetspertrigger="40")
    start: JsonOffsets = {"t": {"0": 0, "1": 0}}

    assert ReadMaxRows(40) == stream.getDefaultReadLimit()
    assert {"t": {"0": 30, "1": 10}} == stream.latestOffset(start, ReadMaxRows(40))
    assert {"t": {"0": 300, "1": 100}} == stream.latestOffset(start, ReadAllAvailable())
    assert {"t": {"0": 300, "1": 100}} == stream.reportLatestOffset()


def test_a_trigger_is_delayed_until_there_is_enough_data(cluster):
    """
    minOffsetsPerTrigger delays a trigger, but for no longer than maxTriggerDelay.
    """
    clock = Clock()
    stream = reader(cluster, clock, minoffsetspertrigger="500", maxtriggerdelay="60s")
    start: JsonOffsets = {"t": {"0": 0, "1": 0}}

    first = stream.latestOffset(start, ReadMinRows(500))  # the first trigger is not delayed
    clock.now = 59
    held = stream.latestOffset({"t": {"0": 200, "1": 0}}, ReadMinRows(500))
    clock.now = 61
    late = stream.latestOffset({"t": {"0": 200, "1": 0}}, ReadMinRows(500))

    everything = {"t": {"0": 300, "1": 100}}
    assert [everything, {"t": {"0": 200, "1": 0}}, everything] == [first, held, late]


def test_available_now_ends_at_the_offsets_of_its_start(cluster):
    """
    Trigger.AvailableNow leaves records that arrive during the run to the next run.  minOffsetsPerTrigger does not keep
    the run from ending.
    """
    stream = reader(cluster, maxoffsetspertrigger="350", minoffsetspertrigger="300")
    stream.prepareForTriggerAvailableNow()
    cluster.topics["t"].partitions[0].append_records([b"late"] * 100)

    steps = [{"t": {"0": 0, "1": 0}}]
    while len(steps) < 3 or steps[-1] != steps[-2]:
        steps.append(stream.latestOffset(steps[-1], ReadMaxRows(350)))

    assert {"t": {"0": 300, "1": 100}} == steps[-1]


def test_a_new_partition_is_read_from_its_start(cluster):
    """
    A new partition is read from its start, so that records written before the reader noticed it are not skipped.
    """
    stream = reader(cluster)
    start = stream.initialOffset()
    cluster.topics["t"].partitions[2] = filled(100)

    end = stream.latestOffset(start, ReadAllAvailable())

    assert [(2, 0, 100)] == planned(stream, start, end)


def test_a_pattern_finds_new_topics_but_no_internal_ones(cluster):
    """
    A pattern finds new topics but no internal ones, as in Spark's Kafka source.
    """
    cluster.topics["tide"] = Topic(topic_id=TopicId(b"\x02" * 16), partitions={0: filled(100)})
    cluster.topics["t_internal"] = Topic(topic_id=TopicId(b"\x03" * 16), is_internal=True)

    begins = reader(cluster, subscribepattern="t.*", startingoffsets="earliest").initialOffset()

    assert {"t": {"0": 0, "1": 0}, "tide": {"0": 0}} == begins


def test_large_partitions_are_split_into_tasks(cluster):
    """
    minPartitions and maxRecordsPerPartition split the larger partitions.
    """
    stream = reader(cluster, maxrecordsperpartition="150")

    parts = planned(stream, {"t": {"0": 0, "1": 0}}, {"t": {"0": 300, "1": 100}})

    assert [(0, 0, 150), (0, 150, 300), (1, 0, 100)] == parts


def test_equal_offsets_plan_nothing(cluster):
    """
    Equal start and end offsets give an empty plan, which Spark may ask for.
    """
    assert [] == planned(reader(cluster), {"t": {"0": 5}}, {"t": {"0": 5}})


LOSSES = {
    "aged out": ("Offsets 0 to 50 of t-0 no longer exist: it starts at 50", [(0, 50, 300), (1, 0, 100)]),
    "shrunk": ("decreased from offset 900 to 300", [(0, 0, 300), (1, 0, 100)]),
    "deleted": ("The partitions t-2 no longer exist", [(0, 0, 300), (1, 0, 100)]),
}


@pytest.mark.parametrize("what", LOSSES)
@pytest.mark.parametrize("is_failing", [True, False])
def test_a_loss_fails_the_query_or_is_skipped(cluster, caplog, what, is_failing):
    """
    failOnDataLoss decides whether a loss fails the query or is skipped.  Either message says what happened, and the
    error also says what to do.
    """
    sentence, goes_on_with = LOSSES[what]
    start: JsonOffsets = {"t": {"0": 0, "1": 0}}
    if what == "aged out":
        cluster.topics["t"].partitions[0].log_start_offset = 50
    elif what == "shrunk":
        start["t"]["0"] = 900
    else:
        start["t"]["2"] = 10
    stream = reader(cluster, failondataloss=str(is_failing).lower())
    end: JsonOffsets = {"t": {"0": 300, "1": 100}}

    if is_failing:
        with pytest.raises(DataLossError, match="set failOnDataLoss=false") as lost:
            planned(stream, start, end)
        assert sentence in str(lost.value)
    else:
        assert goes_on_with == planned(stream, start, end)
        assert any(sentence in record.getMessage() for record in caplog.records)


def test_a_topic_recreated_while_the_query_runs_is_detected(cluster):
    """
    A topic that was deleted and created again is detected, even if it has grown past the offsets of the old one.
    """
    stream = reader(cluster)
    start = stream.initialOffset()
    cluster.topics["t"] = Topic(topic_id=TopicId(b"\x09" * 16), partitions={0: filled(500), 1: filled(500)})

    with pytest.raises(DataLossError, match="Topic t was deleted and created again"):
        stream.latestOffset(start, ReadAllAvailable())


def test_an_end_offset_that_decreased_is_requested_again(cluster):
    """
    An end offset that decreased is requested again: a new leader may not know it yet, which is no data loss.
    """
    partition = cluster.topics["t"].partitions[0]
    late = partition.batches.pop()
    stream = reader(cluster)

    def arrive(broker_id, name, request):
        if cluster.count("list_offsets") == 2:
            partition.batches.append(late)
        return

    cluster.hook = arrive
    end = stream.latestOffset({"t": {"0": 300, "1": 100}}, ReadAllAvailable())

    assert {"t": {"0": 300, "1": 100}} == end


def test_a_reader_is_pickled_without_its_connections(cluster):
    """
    A reader is pickled without its connections: executors get options and schema, and connect themselves.
    """
    stream = reader(cluster)
    stream.initialOffset()

    travelled = pickle.loads(pickle.dumps(stream))  # noqa: S301 - our own bytes

    assert reader(cluster).__dict__["_options"] == travelled.__dict__["_options"]
    assert None is travelled.__dict__["_reader"]
