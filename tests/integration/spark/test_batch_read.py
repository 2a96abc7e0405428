"""`spark.read.format("tidemill")` against a real broker: found without registration, Kafka's columns and options."""

from datetime import UTC, datetime

import pytest


@pytest.fixture
def load(spark, bootstrap):
    def frame(topic, schema=None, **options):
        reader = spark.read.format("tidemill").option("kafka.bootstrap.servers", bootstrap)
        if not {"assign", "subscribePattern"} & set(options):
            reader = reader.option("subscribe", topic)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.options(**options).load()

    return frame


@pytest.fixture
def ten(make_topic, produce):
    """Two partitions with offsets 0 to 9 and 0 to 4; timestamps 1000, 2000, …"""
    topic = make_topic(partitions=2)
    produce(
        topic,
        [
            {"value": b"%d" % n, "key": b"k%d" % n, "partition": p, "timestamp": 1_000 * (n + 1)}
            for p, count in ((0, 10), (1, 5))
            for n in range(count)
        ],
    )
    return topic


def offsets(frame):
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def test_every_column_is_what_was_produced(load, make_topic, produce):
    """
    Null keys and values, empty ones, headers with null values and the same name twice, times to the millisecond.
    """
    topic = make_topic()
    produce(
        topic,
        [
            {
                "key": b"k",
                "value": b"v",
                "timestamp": 1_357_034_400_123,
                "headers": [("a", b"1"), ("a", None), ("é", b"")],
            },
            {"key": None, "value": None, "timestamp": 0},
            {"key": b"", "value": b"", "timestamp": 1},
        ],
    )

    rows = load(topic, includeHeaders="true").orderBy("offset").collect()

    when = datetime(2013, 1, 1, 10, 0, 0, 123_000, tzinfo=UTC)
    assert (b"k", b"v", topic, 0, 0, 0) == (*rows[0][:5], rows[0].timestampType)
    assert when == rows[0].timestamp.astimezone(UTC)
    assert [("a", b"1"), ("a", None), ("é", b"")] == [(h.key, h.value) for h in rows[0].headers]
    assert [(None, None, None), (b"", b"", None)] == [(r.key, r.value, r.headers) for r in rows[1:]]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(load, make_topic, produce, codec):
    """
    Of batches that are large enough to be compressed.
    """
    topic = make_topic()
    produce(topic, [{"value": b"%08d" % n * 20} for n in range(500)], **{"compression.type": codec, "linger.ms": 50})

    values = [row.value for row in load(topic).orderBy("offset").select("value").collect()]

    assert [b"%08d" % n * 20 for n in range(500)] == [bytes(value) for value in values]


BOUNDS = {
    "everything": ({}, [(0, n) for n in range(10)] + [(1, n) for n in range(5)]),
    "offsets": (
        {"startingOffsets": '{"T":{"0":7,"1":-2}}', "endingOffsets": '{"T":{"0":9,"1":-1}}'},
        [(0, 7), (0, 8), *((1, n) for n in range(5))],
    ),
    "one time": ({"startingTimestamp": "4500"}, [(0, n) for n in range(4, 10)] + [(1, 4)]),
    "times": (
        {
            "startingOffsetsByTimestamp": '{"T":{"0":9000,"1":5000}}',
            "endingOffsetsByTimestamp": '{"T":{"0":10000,"1":6000}}',
        },
        [(0, 8), (1, 4)],
    ),
    "assigned": ({"assign": '{"T":[1]}'}, [(1, n) for n in range(5)]),
    "in more tasks": ({"minPartitions": "7"}, [(0, n) for n in range(10)] + [(1, n) for n in range(5)]),
    "in small tasks": ({"maxRecordsPerPartition": "4"}, [(0, n) for n in range(10)] + [(1, n) for n in range(5)]),
}


@pytest.mark.parametrize("what", BOUNDS)
def test_bounds_are_those_of_the_options(load, ten, what):
    """
    Starts are inclusive, ends are not; each offset is read once, however it is divided.
    """
    options, expected = BOUNDS[what]

    frame = load(ten, **{key: value.replace("T", ten) if "{" in value else value for key, value in options.items()})

    assert expected == offsets(frame)


def test_tasks_are_as_many_as_asked_for(load, ten):
    """
    One for each topic partition, or equal parts of them.
    """
    counts = [load(ten, **options).rdd.getNumPartitions() for options in ({}, {"maxRecordsPerPartition": "4"})]

    assert [2, 5] == counts


def test_a_pattern_reads_all_topics_that_match(load, make_topic, produce, ten):
    """
    The whole name must match, as in Java.
    """
    twin = make_topic(name=f"{ten}-twin")
    produce(twin, [{"value": b"x"}])

    topics = load("", subscribePattern=f"{ten}.*").select("topic").distinct().collect()

    assert {ten, twin} == {row.topic for row in topics}
    assert 15 == load("", subscribePattern=ten).count()


def test_only_the_columns_of_the_schema_are_decoded(load, ten):
    """
    In the schema's order and spelling.
    """
    rows = load(ten, schema="OFFSET long, value binary").orderBy("offset").collect()

    assert (["OFFSET", "value"], (0, b"0")) == (rows[0].__fields__, (rows[0].OFFSET, bytes(rows[0].value)))


def test_an_empty_topic_has_no_rows(load, make_topic):
    """
    And no task fails for want of work.
    """
    assert 0 == load(make_topic(partitions=2)).count()


def test_a_view_in_sql_takes_the_same_options(spark, bootstrap, ten):
    """
    Without any registration by hand.
    """
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW tide USING tidemill OPTIONS ("
        f"'kafka.bootstrap.servers' '{bootstrap}', subscribe '{ten}')"
    )

    assert 15 == spark.sql("SELECT count(*) AS n FROM tide").first().n


def test_offsets_that_are_gone_fail_or_are_skipped(load, bootstrap, ten):
    """
    failOnDataLoss: an error that says what to do, or what is left.
    """
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_records([TopicPartition(ten, 0, 6)]).values():
        deleted.result(30)
    starting = f'{{"{ten}":{{"0":2,"1":0}}}}'

    with pytest.raises(Exception, match=r"asks for offset 2 .* which now begins at 6.* failOnDataLoss=false"):
        load(ten, startingOffsets=starting).count()
    left = offsets(load(ten, startingOffsets=starting, failOnDataLoss="false"))

    assert [(0, 6), (0, 7), (0, 8), (0, 9), *((1, n) for n in range(5))] == left


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "no-such-topic"}, "topic 'no-such-topic': it does not exist"),
        ({"kafka.security.protocol": "SASL_SSL"}, "security.protocol=SASL_SSL is not supported"),
        ({"startingOffsets": "latest"}, "starting offset can't be latest"),
    ],
)
def test_a_mistake_is_told_before_any_task(load, ten, options, sentence):
    """
    With the sentence that a user can act on.
    """
    with pytest.raises(Exception, match=sentence):
        load(options.pop("subscribe", ten), **options).count()
