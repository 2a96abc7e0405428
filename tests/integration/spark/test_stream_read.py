"""`spark.readStream.format("tidemill")` with a real broker: every offset is delivered exactly once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

QUERY = Path(__file__).with_name("parquet_query.py")
START_SECONDS_MAX = 90  # a Spark session on a busy machine
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


def run_available(spark, bootstrap, topic, directory, **options):
    """Run a query with Trigger.AvailableNow; return the progress of its batches that had rows."""
    query = (
        spark.readStream.format("tidemill")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(directory / "data"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [progress for progress in query.recentProgress if progress["numInputRows"]]


def delivered(spark, directory):
    """Return (partition, offset) of every row that the file sink has committed, sorted."""
    rows = spark.read.parquet(str(directory / "data")).select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in rows)


def all_offsets(count):
    return [(p, n) for p in range(PARTITIONS) for n in range(count)]


def test_a_run_reads_all_records_in_steps_and_the_next_resumes(spark, bootstrap, numbered, tmp_path):
    """
    A run with Trigger.AvailableNow reads all records in steps of maxOffsetsPerTrigger, and the next run resumes after
    them.  The checkpoint has offsets in the format of Spark's Kafka source.
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


def test_a_checkpoint_of_sparks_kafka_source_can_be_used(spark, bootstrap, numbered, tmp_path):
    """
    A query of Spark's Kafka source that changes its format to `tidemill` and keeps its checkpoint resumes where it was.
    """
    topic = numbered(50)
    run_available(spark, bootstrap, topic, tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="100")
    # Spark's own source writes the same JSON without spaces and in another order.
    for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"):
        *head, last = path.read_text().splitlines()
        theirs = {topic: dict(reversed(json.loads(last)[topic].items()))}
        path.write_text("\n".join([*head, json.dumps(theirs, separators=(",", ":"))]))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    numbered.add(topic, 10)

    run_available(spark, bootstrap, topic, tmp_path)

    assert all_offsets(60) == delivered(spark, tmp_path)


def test_a_query_that_is_killed_delivers_every_offset_exactly_once(spark, bootstrap, numbered, tmp_path):
    """
    A query that is killed five times delivers every offset exactly once.  It is killed at least once between writing
    the offsets of a batch and its commit, and otherwise right after a commit or while files are written.
    """
    count = 750
    topic = numbered(count)
    moments = ["offsets written", "files written", "committed", "offsets written", "committed"]

    windows = [kill_at(moment, bootstrap, topic, tmp_path) for moment in moments]
    run_available(spark, bootstrap, topic, tmp_path, maxOffsetsPerTrigger="2000")

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
    while not has_come(moment, directory, before):
        assert process.poll() is None, f"the query ended: {(directory / 'query.log').read_text()[-3000:]}"
        assert time.monotonic() < deadline, (
            f"the query made no progress: {(directory / 'query.log').read_text()[-3000:]}"
        )
        time.sleep(0.005)  # only the directory shows the progress of the query
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
