"""`spark.readStream.format("tidemill")` with a real broker: every offset is delivered exactly once."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fault.extent import times
from tidemill.spark.progress import offsets_behind_latest

CHECKPOINT = Path(__file__).with_name("kafka_checkpoint")
QUERY = Path(__file__).with_name("parquet_query.py")
START_SECONDS_MAX = 150  # time limit for the start of a Spark session on a busy machine
PARTITIONS = 4


@pytest.fixture
def numbered(make_topic, produce):
    """`numbered(count)` creates a topic with `count` records in each partition and returns its name."""

    def make(count):
        topic = make_topic(partitions=PARTITIONS)
        add(topic, count)
        return topic

    def add(topic, count):
        produce(topic, [{"value": b"%d" % n, "partition": p} for n in range(count) for p in range(PARTITIONS)])

    make.add = add
    return make


def tidemill_stream(spark, bootstrap, topic, **options):
    reader = spark.readStream.format("tidemill").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).options(**options).load()


def run_available(spark, bootstrap, topic, directory, **options):
    """Run a query with Trigger.AvailableNow; return the progress of its batches that had rows."""
    query = (
        tidemill_stream(spark, bootstrap, topic, **options)
        .writeStream.format("parquet")
        .option("path", str(directory / "data"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [progress for progress in query.recentProgress if progress["numInputRows"]]


def run_each(frame, directory, take):
    """
    Run a query with Trigger.AvailableNow; call `take` with (partition, offset) of the rows of each batch, and the
    batch's id.
    """

    def each(batch, batch_id):
        take(sorted((row.partition, row.offset) for row in batch.select("partition", "offset").collect()), batch_id)

    stream = frame.writeStream.foreachBatch(each).option("checkpointLocation", str(directory / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()


def delivered(spark, directory):
    """Return (partition, offset) of every row that the file sink has committed, sorted."""
    rows = spark.read.parquet(str(directory / "data")).select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in rows)


def all_offsets(count):
    return [(p, n) for p in range(PARTITIONS) for n in range(count)]


def test_a_run_reads_all_records_in_steps_and_the_next_resumes(spark, bootstrap, numbered, tmp_path):
    """
    A run with Trigger.AvailableNow reads all records in steps of maxOffsetsPerTrigger, and the next run resumes after
    them.  The checkpoint contains offsets in the format of Spark's Kafka source.
    """
    topic = numbered(100)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "160"}

    first = run_available(spark, bootstrap, topic, tmp_path, **options)
    numbered.add(topic, 20)
    second = run_available(spark, bootstrap, topic, tmp_path, **options)

    assert ([160, 160, 80], [80]) == tuple([batch["numInputRows"] for batch in run] for run in (first, second))
    assert all_offsets(120) == delivered(spark, tmp_path)
    stored = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1]
    assert {topic: {str(p): 40 for p in range(PARTITIONS)}} == json.loads(stored)


@pytest.mark.parametrize("is_completed", [True, False])
def test_a_checkpoint_of_sparks_kafka_source_can_be_used(spark, bootstrap, make_topic, produce, tmp_path, is_completed):
    """
    A query of Spark's Kafka source that changes its format to `tidemill` and keeps its checkpoint reads exactly what
    remains, even if it was stopped during a batch.  The directory `kafka_checkpoint` has the layout that Spark writes.
    """
    topic = make_topic(partitions=2)
    produce(topic, [{"value": b"x", "partition": p} for p, count in ((0, 25), (1, 12)) for _ in range(count)])
    for path in filter(Path.is_file, CHECKPOINT.rglob("*")):
        copied = tmp_path / "checkpoint" / path.relative_to(CHECKPOINT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(path.read_bytes().replace(b'"flights"', json.dumps(topic).encode()))
    if not is_completed:
        (tmp_path / "checkpoint" / "commits" / "1").unlink()

    batches = []
    run_each(
        tidemill_stream(spark, bootstrap, topic), tmp_path, lambda rows, batch_id: batches.append((batch_id, rows))
    )

    repeated = [(1, [*((0, n) for n in range(10, 20)), (1, 8), (1, 9)])]
    new = [(2, [*((0, n) for n in range(20, 25)), (1, 10), (1, 11)])]
    assert (new if is_completed else repeated + new) == batches


def test_the_first_batch_is_repeated_with_its_start(spark, bootstrap, numbered, tmp_path):
    """
    A first batch that failed is repeated with the same rows, although its start is relative to the end of a topic that
    has grown by then.
    """
    topic = numbered(10)
    batches = []

    def fail_once(rows, batch_id):
        batches.append((batch_id, rows))
        if len(batches) == 1:
            raise RuntimeError("the sink is full")

    frame = tidemill_stream(spark, bootstrap, topic, startingOffsets="-3")
    with pytest.raises(Exception, match="the sink is full"):
        run_each(frame, tmp_path, fail_once)
    numbered.add(topic, 5)
    run_each(frame, tmp_path, fail_once)

    last_three = [(p, n) for p in range(PARTITIONS) for n in (7, 8, 9)]
    new = [(p, n) for p in range(PARTITIONS) for n in range(10, 15)]
    assert [(0, last_three), (0, last_three), (1, new)] == batches


def test_lag_tools_see_the_query_and_a_new_query_starts_from_its_group(spark, bootstrap, numbered, tmp_path):
    """
    With commitGroup, the committed offsets of a group are the end offsets of the last completed batch, and another
    query starts there with `group:NAME`.
    """
    from confluent_kafka import Consumer, TopicPartition

    topic = numbered(100)
    run_available(
        spark,
        bootstrap,
        topic,
        tmp_path / "first",
        startingOffsets="earliest",
        commitGroup=topic,
        maxBytesPerTrigger="1k",
    )
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    committed = consumer.committed([TopicPartition(topic, p) for p in range(PARTITIONS)], timeout=30)
    consumer.close()
    numbered.add(topic, 5)
    (batch,) = run_available(spark, bootstrap, topic, tmp_path / "second", startingOffsets=f"group:{topic}")

    assert [100] * PARTITIONS == [one.offset for one in committed]
    assert all_offsets(100) == delivered(spark, tmp_path / "first")
    assert 5 * PARTITIONS == batch["numInputRows"]


def test_limits_in_bytes_split_batches_and_tasks(spark, bootstrap, numbered, tmp_path):
    """
    maxBytesPerTrigger splits a read into several batches, and the progress shows how far each batch is behind the
    topic.
    """
    topic = numbered(200)

    batches = run_available(
        spark,
        bootstrap,
        topic,
        tmp_path,
        startingOffsets="earliest",
        maxBytesPerTrigger="3k",
        maxBytesPerPartition="500",
    )

    behind = [int(offsets_behind_latest(batch["sources"][0])["maxOffsetsBehindLatest"]) for batch in batches]
    assert len(batches) > 1
    assert 0 == behind[-1] < behind[0] < 200
    assert all_offsets(200) == delivered(spark, tmp_path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingOffsets": "-10w"}, "ValueError: startingOffsets=-10w is not a position"),
        (
            {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "1000"},
            r"\w+: .*127\.0\.0\.1:1.*Connection refused",
        ),
    ],
)
def test_an_error_of_a_stream_starts_with_its_sentence(spark, bootstrap, tmp_path, options, sentence):
    """
    The error of a query that cannot start begins with one sentence about the cause and contains no traceback, even for
    a wrong address.
    """
    with pytest.raises(Exception) as failed:
        run_available(spark, bootstrap, "t", tmp_path, **options)

    assert re.search(rf"exception: \[\w+\] [^:]*: [\w.]*{sentence}", str(failed.value)), str(failed.value)
    assert "Traceback" not in str(failed.value)


def test_a_query_that_is_killed_delivers_every_offset_exactly_once(spark, bootstrap, numbered, tmp_path):
    """
    A query that is killed delivers every offset exactly once.  It is killed between writing the offsets of a batch and
    its commit, and in the soak also right after a commit and while files are written.
    """
    count = times(250, 750)
    topic = numbered(count)
    moments = ["offsets written", "files written", "committed"][: times(1, 3)]

    windows = [kill_at(moment, bootstrap, topic, tmp_path) for moment in moments]
    run_available(spark, bootstrap, topic, tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="2000")

    assert "offsets without commit" in windows
    assert all_offsets(count) == delivered(spark, tmp_path)


def start(bootstrap, topic, directory):
    """Start the query in its own process group, so that the interpreter and its JVM are killed together."""
    log = (directory / "query.log").open("ab")
    command = [sys.executable, str(QUERY), bootstrap, topic, str(directory), "200"]
    with log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def kill_at(moment, bootstrap, topic, directory):
    """Kill a run when the checkpoint shows that a batch has reached `moment`; return the state of the checkpoint."""
    before = newest(directory, "commits")
    process = start(bootstrap, topic, directory)
    deadline = time.monotonic() + START_SECONDS_MAX
    try:
        while not has_come(moment, directory, before):
            assert process.poll() is None, f"the query ended: {(directory / 'query.log').read_text()[-3000:]}"
            assert time.monotonic() < deadline, (
                f"the query made no progress: {(directory / 'query.log').read_text()[-3000:]}"
            )
            time.sleep(0.005)  # only the directory shows the progress of the query
    finally:
        with contextlib.suppress(ProcessLookupError):  # the query has ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return "offsets without commit" if newest(directory, "offsets") > newest(directory, "commits") else "all committed"


def has_come(moment, directory, before):
    if moment == "committed":
        return newest(directory, "commits") > before
    if newest(directory, "offsets") <= before or newest(directory, "commits") > before + 1:
        return False
    if moment == "offsets written":
        return True
    written = {path.name for path in (directory / "data").glob("part-*.parquet")}
    return bool(written - seen_files(directory))


def seen_files(directory):
    """Return the names of files that belong to committed batches."""
    logs = (directory / "data" / "_spark_metadata").glob("[0-9]*")
    lines = [line for log in logs for line in log.read_text().splitlines()[1:]]
    return {json.loads(line)["path"].rsplit("/", 1)[-1] for line in lines}


def newest(directory, kind):
    folder = directory / "checkpoint" / kind
    numbers = [int(path.name) for path in folder.glob("[0-9]*") if path.name.isdecimal()] if folder.exists() else []
    return max(numbers, default=-1)
