"""Timer topics with `format("tidemill")` and a real broker: rows that say when they are due, and reading what waits."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

HEADERS = "array<struct<key:string,value:binary>>"
DUE = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)


@pytest.fixture
def timer_topic(make_topic):
    return lambda partitions=1: make_topic(partitions, **{"tidemill.kind": "timer"})


@pytest.fixture
def save(bootstrap):
    def write(frame, topic=None):
        options = {"kafka.bootstrap.servers": bootstrap} | ({} if topic is None else {"topic": topic})
        frame.write.format("tidemill").mode("append").options(**options).save()

    return write


@pytest.fixture
def waiting(spark, bootstrap):
    def frame(topic, schema=None, **options):
        reader = spark.read.format("tidemill").option("kafka.bootstrap.servers", bootstrap)
        reader = reader if schema is None else reader.schema(schema)
        return reader.options(**{"subscribe": topic, "records": "waiting", **options}).load()

    return frame


def test_rows_that_wait_are_read_as_they_were_written(spark, save, waiting, timer_topic):
    """A due time is a moment in Spark, whatever the time zone of the session; a null leaves the header out."""
    topic, copy = timer_topic(), timer_topic()
    rows = [
        ("a", "later", [("z", b"1"), ("a", None)], DUE, "one"),
        ("b", "latest", None, DUE + timedelta(hours=1), None),
    ]
    schema = f"key string, value string, headers {HEADERS}, deliver_at timestamp, timer_id string"

    save(spark.createDataFrame(rows, schema).coalesce(1), topic)
    found = waiting(topic, includeHeaders="true")

    own = ["arrival", "deliver_at", "timer_id"]
    assert ["key", "value", "topic", "partition", "timestamp", "headers", *own] == found.columns
    expected = [
        (b"a", b"later", [("z", b"1"), ("a", None)], topic, 0, 0, DUE, b"one"),
        (b"b", b"latest", [], topic, 0, 1, DUE + timedelta(hours=1), None),
    ]
    assert expected == [
        (
            row.key, row.value, [tuple(it) for it in row.headers], row.topic, row.partition, row.arrival,
            row.deliver_at.astimezone(UTC), row.timer_id,
        )
        for row in found.orderBy("arrival").collect()
    ]  # fmt: skip

    save(found, copy)
    again = waiting(copy, includeHeaders="true").drop("topic", "timestamp", "arrival")
    assert found.drop("topic", "timestamp", "arrival").exceptAll(again).isEmpty()
    assert 2 == again.count()


def test_what_waits_is_filtered_limited_and_selected_like_other_records(spark, save, waiting, timer_topic):
    topic = timer_topic(3)
    due_ms = int(DUE.timestamp() * 1_000)
    rows = spark.range(0, 3_000, numPartitions=2).selectExpr(
        "CAST(id AS STRING) AS key", "concat('v', id) AS value", "CAST(id % 3 AS INT) AS partition",
        f"{due_ms} + id AS deliver_at",
    )  # fmt: skip
    save(rows, topic)

    assert 3_000 == waiting(topic).select("key").distinct().count()
    assert 3 == waiting(topic).rdd.getNumPartitions()
    late = waiting(topic, "deliver_at timestamp, key binary").where(F.col("deliver_at") >= DUE + timedelta(seconds=2))
    assert {b"%d" % it for it in range(2_000, 3_000)} == {bytes(row.key) for row in late.collect()}
    assert 5 == waiting(topic).limit(5).count()

    pushed = waiting(topic, filterPushdown="true").where("partition = 1 AND key = X'37'")
    assert [(7, b"v7", 1)] == [(int(row.key), bytes(row.value), row.partition) for row in pushed.collect()]
    assert 1 == pushed.rdd.getNumPartitions()


def test_a_stream_writes_due_times(spark, bootstrap, waiting, timer_topic, make_topic, produce, tmp_path):
    source, topic = make_topic(), timer_topic()
    produce(source, [{"value": b"%d" % it, "timestamp": 1_700_000_000_000 + it} for it in range(10)])
    options = {"kafka.bootstrap.servers": bootstrap}
    stream = spark.readStream.format("tidemill").options(**options, subscribe=source, startingOffsets="earliest").load()
    due = stream.select("value", (F.col("timestamp") + F.expr("INTERVAL 100 YEARS")).alias("deliver_at"))
    query = due.writeStream.format("tidemill").options(
        **options, topic=topic, checkpointLocation=str(tmp_path)
    ).trigger(availableNow=True).start()  # fmt: skip
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()

    found = waiting(topic, "value binary, deliver_at timestamp").orderBy("deliver_at").collect()
    assert [b"%d" % it for it in range(10)] == [bytes(row.value) for row in found]
    assert {timedelta(milliseconds=1)} == {after.deliver_at - before.deliver_at for before, after in pairwise(found)}


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (["CAST('x' AS STRING) AS deliver_at"], "deliver_at attribute unsupported type string"),
        (
            ["TIMESTAMP_NTZ'2030-01-01' AS deliver_at"],
            "deliver_at attribute has type timestamp[us], without a time zone",
        ),
        (["current_timestamp() AS deliver_at"], "does not take the columns deliver_at and timer_id: it is of kind log"),
        (["'x' AS timer_id"], "does not take the columns deliver_at and timer_id: it is of kind log"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_the_first_task(spark, save, make_topic, columns, sentence):
    with pytest.raises(PySparkException) as refused:
        save(spark.range(1).selectExpr("'v' AS value", *columns), make_topic())

    assert sentence in str(refused.value)
    assert "Traceback" not in str(refused.value)


def test_a_row_that_does_not_fit_is_named(spark, save, timer_topic):
    with pytest.raises(PySparkException, match="row 0: deliver_at is 1800000000: a number is ms since the epoch"):
        save(spark.range(1).selectExpr("'v' AS value", "1800000000L AS deliver_at"), timer_topic())


def test_reads_that_do_not_fit_are_refused_by_name(spark, bootstrap, waiting, make_topic, timer_topic):
    log, timers = make_topic(), timer_topic()

    with pytest.raises(PySparkException, match=f"records=waiting cannot read topic '{log}': it is of kind log"):
        waiting(log).count()
    with pytest.raises(PySparkException, match="startingOffsets=earliest is not supported with records=waiting"):
        waiting(timers, startingOffsets="earliest").count()
    with pytest.raises(PySparkException, match="column 'offset' exists only when a record is released"):
        waiting(timers, "offset long").count()

    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": timers, "records": "waiting"}
    query = spark.readStream.format("tidemill").options(**options).load().writeStream.format("noop").start()
    with pytest.raises(PySparkException, match="records=waiting is not supported in streaming queries"):
        query.awaitTermination(60)
