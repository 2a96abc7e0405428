"""`df.write.format("tidemill")` with a real broker: columns, routing, options, errors, and failed tasks."""

import time
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

HEADERS = "array<struct<key:string,value:binary>>"


@pytest.fixture
def save(bootstrap):
    def write(frame, topic=None, mode="append", **options):
        writer = frame.write.format("tidemill").mode(mode).option("kafka.bootstrap.servers", bootstrap)
        if topic is not None:
            writer = writer.option("topic", topic)
        writer.options(**options).save()

    return write


@pytest.fixture
def consume(bootstrap):
    """`consume(topic, count)` returns the messages of a topic, ordered by partition and offset."""
    confluent_kafka = pytest.importorskip("confluent_kafka")

    def read(topic, count):
        settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer({**settings, "enable.partition.eof": True})
        numbers = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in numbers])
        found, at_end = [], set()
        while len(at_end) < len(numbers):
            message = consumer.poll(30)
            assert message is not None, f"{len(found)} of {count} messages within 30 s"
            if message.error() is None:
                found.append(message)
            else:
                at_end.add(message.partition())
        consumer.close()
        assert count == len(found)
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

    return read


def test_every_column_arrives(spark, save, make_topic, consume):
    """Every column and kind of null arrives; columns that the sink does not know are ignored, as in Spark's sink."""
    topic = make_topic(partitions=2)
    when = datetime(2013, 1, 1, 10, 0, 0, 123_000, tzinfo=UTC)
    rows = [
        ("k", "v", [("a", b"1"), ("a", None), ("é", b"")], 1, when, "ignored"),
        (None, "", None, 1, when, None),
        ("", None, [], 1, when, None),
    ]
    schema = f"key string, value string, headers {HEADERS}, partition int, timestamp timestamp, other string"

    save(spark.createDataFrame(rows, schema).coalesce(1), topic)

    first, second, third = consume(topic, 3)
    assert (b"k", b"v", 1, 1_357_034_400_123) == (first.key(), first.value(), first.partition(), first.timestamp()[1])
    assert [("a", b"1"), ("a", None), ("é", b"")] == first.headers()
    assert (None, b"", None) == (second.key(), second.value(), second.headers())
    assert (b"", None) == (third.key(), third.value())


@pytest.mark.parametrize("kind", ["string", "binary"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_what_is_written_is_what_is_read(spark, bootstrap, save, make_topic, kind, codec):
    """Rows come back through the source, each key in the partition that the key's hash selects."""
    topic = make_topic(partitions=3)
    numbers = spark.range(0, 5_000, 1, 2)
    frame = numbers.select(
        F.concat(F.lit("k"), F.col("id") % 40).cast(kind).alias("key"),
        F.format_string("%08d", "id").cast(kind).alias("value"),
    )

    save(frame, topic, **{"kafka.compression.type": codec})

    source = spark.read.format("tidemill").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    read = source.load()
    assert 5_000 == read.select("value").distinct().count() == read.count()
    assert 1 == read.groupBy("key").agg(F.countDistinct("partition").alias("n")).select(F.max("n")).first()[0]
    own = frame.select(F.col("key").cast("binary"), F.col("value").cast("binary"))
    assert 0 == own.exceptAll(read.select("key", "value")).count()


def test_rows_without_headers_take_time_in_proportion_to_their_number(spark, save, make_topic):
    """With the settings of `session.builder`, Spark does not measure its Arrow batches after each row.  With Spark's
    defaults, four times as many rows took 12 times as long.
    """
    topic = make_topic()

    def seconds(count):
        headers = F.when(F.col("id") < 0, F.array(F.struct(F.lit("h").alias("key"), F.lit(b"v").alias("value"))))
        frame = spark.range(0, count, 1, 1).select(F.col("id").cast("string").alias("value"), headers.alias("headers"))
        started = time.perf_counter()
        save(frame, topic)
        return time.perf_counter() - started

    seconds(1)  # starts Spark's Python workers before the first measured write
    few, many = (min(seconds(count), seconds(count)) for count in (12_000, 48_000))

    assert many < 8 * few


def test_the_option_topic_wins_over_the_column(spark, save, make_topic, consume):
    by_column, by_option = make_topic(), make_topic()
    frame = spark.createDataFrame([(by_column, "a")], "topic string, value string")

    save(frame)
    save(frame, by_option)

    assert b"a" == consume(by_column, 1)[0].value() == consume(by_option, 1)[0].value()


def test_the_empty_frame_writes_nothing(spark, save, make_topic, consume):
    topic = make_topic()

    save(spark.createDataFrame([], "value string"), topic)

    assert [] == consume(topic, 0)


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ("1 AS value", {"topic": "t"}, "value attribute unsupported type int32. value must be a(n) string or binary"),
        ("'a' AS key", {"topic": "t"}, "Required attribute 'value' not found"),
        ("'a' AS value", {}, "topic option required when no 'topic' attribute is present. Use the topic option"),
        ("1L AS key, 'a' AS value", {"topic": "t"}, "key attribute unsupported type int64"),
        ("'a' AS value, 'x' AS partition", {"topic": "t"}, "partition attribute unsupported type string"),
        ("'a' AS value", {"topic": "does-not-exist"}, "topic 'does-not-exist': it does not exist in the cluster"),
        ("'a' AS value", {"topic": "t", "kafka.acks": "1"}, "acks=1 is not supported: a write is complete only when"),
        ("'a' AS value", {"topic": "t", "kafka.compression.type": "rar"}, "compression.type=rar is unknown: use none"),
        ("'a' AS value", {"topic": "t", "kafka.key.serializer": "x"}, "key.serializer=x is not supported"),
    ],
)
def test_a_wrong_write_is_refused_before_the_first_task(spark, save, columns, options, sentence):
    """An invalid write is refused before any task starts; a task would fail on its first row."""
    frame = spark.range(1).selectExpr("raise_error('a task ran') AS failure", *columns.split(", "))

    with pytest.raises(PySparkException) as failure:
        save(frame, **options)

    assert sentence in str(failure.value)
    assert "a task ran" not in str(failure.value)


def test_without_a_broker_address_or_with_overwrite_the_write_is_refused(spark, save, make_topic):
    frame = spark.createDataFrame([("a",)], "value string")

    with pytest.raises(PySparkException, match=r"Option 'kafka.bootstrap.servers' must be specified"):
        frame.write.format("tidemill").mode("append").option("topic", "t").save()
    with pytest.raises(PySparkException, match="Save mode Overwrite not allowed for Tidemill"):
        save(frame, make_topic(), mode="overwrite")
    for mode in ("ignore", "error"):  # Spark itself refuses these modes for every Python data source
        with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            save(frame, make_topic(), mode=mode)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (["IF(id = 7, NULL, '{topic}') AS topic"], "null topic present in the data. Use the topic option"),
        (["IF(id = 7, 'does-not-exist', '{topic}') AS topic"], "topic 'does-not-exist', row 7: it does not exist"),
        (["'{topic}' AS topic", "IF(id = 7, -1, 0) AS partition"], "topic '{topic}', partition -1, row 7: the topic"),
        (["'{topic}' AS topic", "IF(id = 7, 9, 0) AS partition"], "topic '{topic}', partition 9, row 7: the topic has"),
        (
            ["'{topic}' AS topic", "repeat('x', IF(id = 7, 1100000, 1)) AS value"],
            "partition 0, row 7: its batch has 11",
        ),
    ],
)
def test_a_wrong_row_is_named(spark, save, make_topic, columns, sentence):
    topic = make_topic()
    chosen = [column.format(topic=topic) for column in columns]
    if not any(column.endswith("value") for column in chosen):
        chosen.append("'v' AS value")

    with pytest.raises(PySparkException) as failure:
        save(spark.range(0, 10, 1, 1).selectExpr(*chosen))

    assert sentence.format(topic=topic) in str(failure.value)
    assert "Traceback" not in str(failure.value)


def test_a_broker_that_cannot_be_reached_is_named(spark):
    """A write to an address without a broker fails on the driver, and the error names the address."""
    frame = spark.createDataFrame([("a",)], "value string")
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "kafka.default.api.timeout.ms": "300"}

    with pytest.raises(PySparkException, match=r"cannot connect to broker 127\.0\.0\.1:1"):
        frame.write.format("tidemill").mode("append").options(**options).save()
