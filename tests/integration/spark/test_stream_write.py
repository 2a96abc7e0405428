"""`df.writeStream.format("tidemill")` with a real broker: micro-batches, output modes, restarts and failed tasks."""

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name


@pytest.fixture
def stream(spark, bootstrap):
    """`stream(topic)` returns a stream of the records of a topic from the start, with at most 40 records in a
    micro-batch.
    """

    def frame(topic):
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        return spark.readStream.format("tidemill").options(**options).option("maxOffsetsPerTrigger", 40).load()

    return frame


@pytest.fixture
def run(bootstrap):
    """`run(frame, topic, checkpoint, mode)` writes all available rows, and returns the finished query."""

    def start(frame, topic, checkpoint, mode="append"):
        options = {"kafka.bootstrap.servers": bootstrap, "checkpointLocation": str(checkpoint)}
        if topic is not None:
            options["topic"] = topic
        query = frame.writeStream.format("tidemill").outputMode(mode).options(**options)
        running = query.trigger(availableNow=True).start()
        try:
            assert running.awaitTermination(120)
        finally:
            running.stop()
        return running

    return start


@pytest.fixture
def values(spark, bootstrap):
    """`values(topic)` returns the values of a topic as text, per partition and in order."""

    def read(topic):
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
        rows = spark.read.format("tidemill").options(**options).load().orderBy("partition", "offset").collect()
        return [row.value.decode() for row in rows]

    return read


def test_a_stream_is_copied_and_goes_on_after_a_restart(stream, run, values, make_topic, produce, tmp_path):
    """Several micro-batches and a second run copy every record once, with key, partition and headers."""
    source, target = make_topic(), make_topic()
    produce(source, [{"value": b"%d" % n, "key": b"k"} for n in range(100)])
    copied = stream(source).select("key", "value", "partition")

    first = run(copied, target, tmp_path)
    produce(source, [{"value": b"%d" % n, "key": b"k"} for n in range(100, 110)])
    run(copied, target, tmp_path)

    assert [str(n) for n in range(110)] == values(target)
    assert len(first.recentProgress) >= 3


def test_complete_mode_writes_the_whole_result_again(stream, run, values, make_topic, produce, tmp_path):
    """The sink appends in every output mode, as Spark's Kafka sink does, so complete mode writes all results again."""
    source, target = make_topic(), make_topic()
    produce(source, [{"value": b"a"} for _ in range(50)])
    counted = stream(source).groupBy("value").count().select(F.col("count").cast("string").alias("value"))

    run(counted, target, tmp_path, mode="complete")

    assert ["40", "50"] == values(target)


def test_a_task_that_fails_is_repeated_and_its_rows_may_be_duplicated(
    spark, bootstrap, stream, values, make_topic, produce, tmp_path
):
    """Delivery is at-least-once: after a query has failed, a new run writes the micro-batch again, and no record is
    missing.
    """
    source, target, flag = make_topic(), make_topic(), tmp_path / "failed"
    produce(source, [{"value": b"%d" % n} for n in range(10)])

    def fail_once(batches):
        import pyarrow as pa

        for rows in batches:
            yield rows
            if not flag.exists():
                flag.touch()
                raise RuntimeError(f"planned failure of task {TaskContext.get().partitionId()}, {pa.__version__}")

    failing = stream(source).select("value").mapInArrow(fail_once, "value binary")
    options = {"kafka.bootstrap.servers": bootstrap, "checkpointLocation": str(tmp_path / "c"), "topic": target}
    sink = failing.writeStream.format("tidemill").options(**options)
    with pytest.raises(PySparkException, match="planned failure"):
        query = sink.trigger(availableNow=True).start()
        query.awaitTermination(120)
    again = failing.writeStream.format("tidemill").options(**options).trigger(availableNow=True).start()
    assert again.awaitTermination(120)

    assert {str(n) for n in range(10)} == set(values(target))


@pytest.mark.parametrize(
    ("column", "topic", "sentence"),
    [
        ("value", "does-not-exist", "topic 'does-not-exist': it does not exist in the cluster"),
        ("key", "t", "Required attribute 'value' not found"),
        ("value", None, "topic option required when no 'topic' attribute is present"),
    ],
)
def test_a_wrong_stream_is_refused_before_the_first_task(
    stream, run, make_topic, produce, tmp_path, column, topic, sentence
):
    source = make_topic()
    produce(source, [{"value": b"a"}])

    with pytest.raises(PySparkException) as failure:
        run(stream(source).select(column), topic, tmp_path)

    assert sentence in str(failure.value)
