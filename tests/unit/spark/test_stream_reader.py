"""The stream reader's progress, its limits and its treatment of data loss."""

import json
import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from tests.unit.client.fake_cluster import FakeCluster, Group, Partition, Topic
from tidemill.client.failures import ClientError
from tidemill.columnar import source_options
from tidemill.columnar.data_loss import DataLossError
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.model.partition import TopicPartition
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


def options_of(cluster: FakeCluster, **options: str) -> dict[str, str]:
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
    return given


def reader(cluster: FakeCluster, clock: Clock | None = None, **options: str) -> StreamReader:
    parsed = source_options.for_stream(options_of(cluster, **options))
    started.append(StreamReader(parsed, row_schema.full(has_headers=False), OffsetReader, clock or Clock()))
    return started[-1]


def planned(stream: StreamReader, start: JsonOffsets, end: JsonOffsets) -> list[tuple[int, int, int]]:
    parts = [one.value for one in stream.partitions(start, end)]
    return [(one.partition, one.start_offset, one.end_offset) for one in parts]


def test_a_query_starts_at_the_configured_offsets(cluster):
    """
    A query starts at the configured offsets, by default at the end.  The JSON has the format of Spark's Kafka source.
    """
    cluster.groups["g"] = Group(offsets={("t", 0): 20})
    begins = [
        reader(cluster, **options).initialOffset()
        for options in (
            {},
            {"startingoffsets": "earliest"},
            {"startingoffsets": '{"t":{"0":7,"1":-1}}'},
            {"startingoffsets": "-120"},
            {"startingoffsets": "group:g"},
            {"startingoffsets": "-1s"},
        )
    ]

    assert [
        {"t": {"0": 300, "1": 100}},
        {"t": {"0": 0, "1": 0}},
        {"t": {"0": 7, "1": 100}},
        {"t": {"0": 180, "1": 0}},
        {"t": {"0": 20, "1": 0}},
        {"t": {"0": 300, "1": 100}},
    ] == begins


def test_a_start_in_the_past_is_counted_from_now(cluster):
    """
    `-10m` means the first record that is at most ten minutes old; a partition without such a record starts at its end.
    """
    cluster.topics["t"].partitions[0].append_records([b"new"] * 5, timestamp=900_000)
    options = source_options.for_stream(options_of(cluster, startingoffsets="-10m"))

    offsets = OffsetReader(options, wall_clock=lambda: 1_000.0)
    try:
        found = offsets.resolve(options.starting, offsets.partitions(), is_start=True)
    finally:
        offsets.close()

    assert {TopicPartition("t", 0): 300, TopicPartition("t", 1): 100} == found


def test_a_group_that_is_ahead_of_the_topic_is_data_loss(cluster):
    """
    A committed offset after the end shows that the topic was created again.  With onDataLoss=skip, the partition is
    then read from its start.
    """
    cluster.groups["g"] = Group(offsets={("t", 0): 900, ("t", 1): 30})

    with pytest.raises(DataLossError, match="Group 'g' has committed offset 900 of t-0, which is after the end 300"):
        reader(cluster, startingoffsets="group:g").initialOffset()
    begin = reader(cluster, startingoffsets="group:g", ondataloss="skip").initialOffset()

    assert {"t": {"0": 0, "1": 30}} == begin


@pytest.mark.parametrize("starting", ["latest", "-120"])
def test_the_first_batch_keeps_its_start(cluster, starting):
    """
    The first batch starts at the same offsets when Spark asks again, in the same run and after a restart, although the
    topic has grown by then: the end of the batch in Spark's checkpoint also contains the start.
    """
    stream = reader(cluster, startingoffsets=starting)
    begin = stream.initialOffset()
    cluster.topics["t"].partitions[0].append_records([b"x"] * 200)
    end = json.loads(json.dumps(stream.latestOffset(begin, ReadAllAvailable())))
    cluster.topics["t"].partitions[0].append_records([b"x"] * 200)

    assert begin == stream.initialOffset()
    first = planned(stream, begin, end)
    again = reader(cluster, startingoffsets=starting)
    assert first == planned(again, again.initialOffset(), end)
    assert (0, begin["t"]["0"], 500) in first


def test_the_second_batch_starts_at_the_end_of_the_first(cluster):
    """
    The start that the end of the first batch contains does not affect later batches, and without new records nothing is
    planned.
    """
    stream = reader(cluster, startingoffsets="-120")
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    again = reader(cluster, startingoffsets="-120")

    assert end == again.latestOffset(end, ReadAllAvailable())
    cluster.topics["t"].partitions[1].append_records([b"x"] * 9)
    new_end = again.latestOffset(end, ReadAllAvailable())
    assert ({"t": {"0": 300, "1": 109}}, [(1, 100, 109)]) == (new_end, planned(again, end, new_end))


def test_a_planned_first_batch_without_its_start_is_refused(cluster):
    """
    Spark's Kafka source stores the start of an incomplete first batch where Spark makes it available to no other
    source.  Unless the options determine the start, the batch is refused with an error that contains the fix.
    """
    end = {"t": {"0": 300, "1": 100}}
    unsure, sure = reader(cluster), reader(cluster, startingoffsets='{"t":{"0":290,"1":100}}')

    with pytest.raises(ValueError, match=r"set startingOffsets to the JSON in the last line of .* sources/0/0"):
        planned(unsure, unsure.initialOffset(), end)
    assert [(0, 290, 300)] == planned(sure, sure.initialOffset(), end)


def test_completed_batches_are_committed_to_the_group(cluster):
    """
    The end of every completed batch is committed to commitGroup once, including that of the last batch of a run.
    """
    stream = reader(cluster, commitgroup="g", startingoffsets="earliest", maxoffsetspertrigger="40")
    begin = stream.initialOffset()
    first = stream.latestOffset(begin, ReadMaxRows(40))
    planned(stream, begin, first)
    assert {} == cluster.groups["g"].offsets

    stream.latestOffset(first, ReadMaxRows(40))
    stream.commit(first)

    assert {("t", 0): 30, ("t", 1): 10} == cluster.groups["g"].offsets
    assert 1 == cluster.count("offset_commit")


def test_a_new_query_is_refused_a_group_with_members(cluster):
    """
    A new query is refused if it commits to a group that has live members.  A query that resumes continues and logs a
    warning, because its commits serve only for monitoring.
    """
    cluster.groups["g"] = Group(member_count=1)
    with pytest.raises(ClientError, match="group 'g' has 1 live member"):
        reader(cluster, commitgroup="g").initialOffset()


def test_a_commit_that_fails_is_only_logged(cluster, caplog):
    """
    A commit that fails is logged with the group and the reason, and the query continues.
    """
    cluster.groups["g"] = Group(member_count=1)
    start = {"t": {"0": 7, "1": 7}}

    end = reader(cluster, commitgroup="g").latestOffset(start, ReadAllAvailable())

    assert {"t": {"0": 300, "1": 100}} == end
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("commitGroup=g: the query continues without this commit: group 'g' has live members")


def test_a_trigger_is_limited_in_bytes(cluster):
    """
    maxBytesPerTrigger limits a trigger by the stored sizes of its batches; with maxOffsetsPerTrigger, both limits hold.
    """
    begin: JsonOffsets = {"t": {"0": 0, "1": 0}}
    batch_bytes = len(cluster.topics["t"].partitions[0].batches[0])  # a batch of 100 records
    half = str(2 * batch_bytes)

    stream = reader(cluster, maxbytespertrigger=half)
    both = reader(cluster, maxbytespertrigger=half, maxoffsetspertrigger="40")
    ample = reader(cluster, maxbytespertrigger="1g")

    assert ReadMaxBytes(2 * batch_bytes) == stream.getDefaultReadLimit()
    # Half of each partition's offsets, less one: each partition's share of the bytes is rounded down, because a batch
    # has an odd number of bytes.
    assert {"t": {"0": 149, "1": 49}} == stream.latestOffset(begin, stream.getDefaultReadLimit())
    assert {"t": {"0": 30, "1": 10}} == both.latestOffset(begin, both.getDefaultReadLimit())
    assert {"t": {"0": 300, "1": 100}} == ample.latestOffset(begin, ample.getDefaultReadLimit())
    assert {"t": {"0": 300, "1": 100}} == stream.latestOffset(begin, ReadAllAvailable())


def test_tasks_are_limited_in_bytes(cluster):
    """
    maxBytesPerPartition splits a micro-batch by the stored sizes of its batches, and the split is deterministic.
    """
    batch_bytes = len(cluster.topics["t"].partitions[0].batches[0])
    plans = [
        planned(
            reader(cluster, maxbytesperpartition=str(batch_bytes)),
            {"t": {"0": 0, "1": 0}},
            {"t": {"0": 300, "1": 100}},
        )
        for _ in range(2)
    ]

    assert [[(0, 0, 100), (0, 100, 200), (0, 200, 300), (1, 0, 100)]] * 2 == plans


def test_offsets_for_some_partitions_only_are_refused(cluster):
    """
    Offsets that omit a partition are refused, because this is usually a mistake.
    """
    with pytest.raises(ValueError, match="you must specify all TopicPartitions"):
        reader(cluster, startingoffsets='{"t":{"0":7}}').initialOffset()


def test_a_trigger_reads_what_its_limit_allows(cluster):
    """
    A trigger reads as many offsets as its limit allows, divided among the partitions in proportion to their pending
    offsets, or all pending offsets if there is no limit.
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


def test_losses_are_reported_as_rows(cluster, tmp_path, caplog):
    """
    onDataLoss=report continues, and writes a row with the lost offsets of each partition to dataLossLog.
    """
    cluster.topics["t"].partitions[0].log_start_offset = 50
    stream = reader(cluster, ondataloss="report", datalosslog=str(tmp_path / "losses"))
    start: JsonOffsets = {"t": {"0": 0, "1": 0, "2": 10}}

    assert LOSSES["aged out"][1] == planned(stream, start, {"t": {"0": 300, "1": 100}})

    rows = [json.loads(line) for path in (tmp_path / "losses").iterdir() for line in path.read_text().splitlines()]
    assert {("t", 0, 0, 50), ("t", 2, 10, None)} == {
        (row["topic"], row["partition"], row["start_offset"], row["end_offset"]) for row in rows
    }
    assert any("Offsets 0 to 50 of t-0 no longer exist" in row["what"] for row in rows)
    assert 2 == sum("The query continues because onDataLoss=report" in r.getMessage() for r in caplog.records)


def test_losses_that_cannot_be_reported_fail_the_query_at_its_start(cluster, tmp_path):
    """
    A query whose losses could not be reported fails before it reads anything, and names the directory.
    """
    (tmp_path / "file").write_text("")
    stream = reader(cluster, ondataloss="report", datalosslog=str(tmp_path / "file" / "losses"))

    with pytest.raises(DataLossError, match=r"dataLossLog=.*file/losses cannot be written"):
        stream.initialOffset()


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
