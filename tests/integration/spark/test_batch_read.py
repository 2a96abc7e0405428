"""`spark.read.format("tidemill")` with a real broker: registration, columns, options and errors."""

import re
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
    """Create a topic whose two partitions have 10 and 5 records, with the timestamps 1000, 2000 and so on."""
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


def test_every_column_has_the_produced_value(load, make_topic, produce):
    """
    Every column has the produced value, including null and empty keys and values, and null and repeated headers.
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


def test_dead_letters_have_the_columns_of_their_headers(load, make_topic, produce):
    """
    With records=dead-letters, the cause, the number of deliveries and the origin are columns; filters on them work, and
    the schema selects among them.
    """
    topic = make_topic()
    told = {"topic": "orders", "partition": "2", "offset": "7", "group": "billing", "delivery.count": "5"}
    headers = [(f"__dlq.errors.{name}", text.encode()) for name, text in told.items()]
    headers.append(("__dlq.errors.message", b"Offset delivery count exceeded the threshold."))
    produce(topic, [{"value": b"dead", "headers": headers}, {"value": b"no letter"}])

    letters = load(topic, records="dead-letters").where("cause = 'limit'").collect()
    some = load(topic, "origin_offset long, value binary", records="dead-letters").orderBy("value")

    assert [(b"dead", "limit", 5, "orders", 2, 7, "billing")] == [
        (it.value, it.cause, it.attempts, it.origin_topic, it.origin_partition, it.origin_offset, it.origin_group)
        for it in letters
    ]
    assert [(7, b"dead"), (None, b"no letter")] == [tuple(row) for row in some.collect()]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(load, make_topic, produce, codec):
    """
    Batches of every codec are read; they are large enough for the producer to compress them.
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
    "the last": ({"startingOffsets": "-3"}, [(0, 7), (0, 8), (0, 9), (1, 2), (1, 3), (1, 4)]),
    "all but the last": ({"endingOffsets": "-4"}, [(0, n) for n in range(6)] + [(1, 0)]),
    "recent": ({"startingOffsets": "-10m"}, []),
    "in more tasks": ({"minPartitions": "7"}, [(0, n) for n in range(10)] + [(1, n) for n in range(5)]),
    "in tasks of few bytes": ({"maxBytesPerPartition": "60"}, [(0, n) for n in range(10)] + [(1, n) for n in range(5)]),
    "in small tasks": ({"maxRecordsPerPartition": "4"}, [(0, n) for n in range(10)] + [(1, n) for n in range(5)]),
}


@pytest.mark.parametrize("what", BOUNDS)
def test_the_options_set_the_bounds(load, ten, what):
    """
    The start bound is inclusive and the end bound exclusive.  Each offset is read once, however the work is divided.
    """
    options, expected = BOUNDS[what]

    frame = load(ten, **{key: value.replace("T", ten) if "{" in value else value for key, value in options.items()})

    assert expected == offsets(frame)


def test_the_options_set_the_number_of_tasks(load, ten):
    """
    A query has one task per topic partition, or one per equal part of a partition if the options ask for more.
    """
    counts = [
        load(ten, **options).rdd.getNumPartitions()
        for options in ({}, {"maxRecordsPerPartition": "4"}, {"maxBytesPerPartition": "1"})
    ]

    assert [2, 5] == counts[:2]
    assert counts[2] > 5  # the exact number depends on the producer's batches


def test_a_pattern_reads_all_topics_that_match(load, make_topic, produce, ten):
    """
    A pattern selects the topics whose whole name matches, as in Java.
    """
    twin = make_topic(name=f"{ten}-twin")
    produce(twin, [{"value": b"x"}])

    topics = load("", subscribePattern=f"{ten}.*").select("topic").distinct().collect()

    assert {ten, twin} == {row.topic for row in topics}
    assert 15 == load("", subscribePattern=ten).count()


def test_only_the_columns_of_the_schema_are_decoded(load, ten):
    """
    Only the columns of the given schema are decoded, in its order and with its spelling.
    """
    rows = load(ten, schema="OFFSET long, value binary").orderBy("offset").collect()

    assert (["OFFSET", "value"], (0, b"0")) == (rows[0].__fields__, (rows[0].OFFSET, bytes(rows[0].value)))


def test_an_empty_topic_has_no_rows(load, make_topic):
    """
    Reading an empty topic returns no rows and does not fail.
    """
    assert 0 == load(make_topic(partitions=2)).count()


def test_a_view_in_sql_accepts_the_same_options(spark, bootstrap, ten):
    """
    A SQL view accepts the same options as the reader, and the source need not be registered explicitly.
    """
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW tide USING tidemill OPTIONS ("
        f"'kafka.bootstrap.servers' '{bootstrap}', subscribe '{ten}')"
    )

    assert 15 == spark.sql("SELECT count(*) AS n FROM tide").first().n


FILTERS = {
    "partition = 1": ([(1, n) for n in range(5)], 1, True),
    "partition IN (1, 7) AND offset >= 3": ([(1, 3), (1, 4)], 1, True),
    "offset < 2": ([(0, 0), (0, 1), (1, 0), (1, 1)], 2, True),
    "key = X'6B33'": ([(0, 3), (1, 3)], 2, True),
    "key IS NULL": ([], 2, True),
    "timestamp >= timestamp_millis(4500) AND timestamp < timestamp_millis(6500)": ([(0, 4), (0, 5), (1, 4)], 2, False),
    "timestamp > timestamp_millis(5000)": ([(0, n) for n in range(5, 10)], 1, False),
    "offset = 1 OR partition = 1": ([(0, 1), *((1, n) for n in range(5))], 2, False),
}


@pytest.mark.parametrize("condition", FILTERS)
def test_filters_read_less_and_lose_nothing(load, ten, condition):
    """
    Filters on partition, offset, timestamp and key give the same rows as without push-down, with fewer tasks if they
    exclude partitions.  Spark re-evaluates only those filters that the source does not apply to every row.
    """
    rows, task_count, is_applied_exactly = FILTERS[condition]

    frame = load(ten, filterPushdown="true").where(condition)

    assert rows == offsets(frame)
    assert task_count == frame.rdd.getNumPartitions()
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert is_applied_exactly == (re.search(r"\bFilter\b", plan) is None), plan


def test_a_session_without_push_down_reads_the_same(spark, load, ten):
    """
    A session whose flag for push-down is off, which is Spark's default, reads the same rows.
    """
    flag = "spark.sql.python.filterPushdown.enabled"
    assert "true" == spark.conf.get(flag)
    spark.conf.set(flag, "false")
    try:
        frame = load(ten, filterPushdown="true")
        assert [(1, 3), (1, 4)] == offsets(frame.where("partition = 1 AND offset >= 3"))
    finally:
        spark.conf.set(flag, "true")


def test_a_frame_that_was_filtered_has_all_its_rows_in_the_next_query(load, ten):
    """
    Several queries can filter one DataFrame, and one query can read it several times, each time with other filters.
    """
    frame = load(ten)
    second = frame.where("partition = 1")

    counts = [second.count(), frame.count(), frame.where("offset < 2").count(), frame.where("key = X'6B33'").count()]

    assert [5, 15, 4, 2] == counts
    assert 20 == second.union(frame).count() == frame.union(second).count()
    assert 7 == frame.where("offset < 1").union(second).count()


def test_spark_keeps_pushed_filters_in_the_plan_of_a_frame(load, ten):
    """
    With filterPushdown, a read after a filtered one lacks rows, as the documentation of the option says.  Once a
    version of Spark no longer does this, the option can be on by default.
    """
    frame = load(ten, filterPushdown="true")

    assert [5, 5] == [frame.where("partition = 1").count(), frame.count()]


def test_every_query_of_a_frame_reads_the_same_range(load, ten, produce):
    """
    Spark keeps the plan of the first read, so records that arrive later appear only in a new DataFrame.
    """
    frame = load(ten)
    before = frame.count()
    produce(ten, [{"value": b"new", "partition": 0}])

    assert [15, 15, 16] == [before, frame.count(), load(ten).count()]


def test_deleted_offsets_fail_the_query_or_are_skipped_or_reported(spark, load, bootstrap, ten, tmp_path):
    """
    If offsets were deleted, a query with failOnDataLoss fails and names the fix; without it, the query reads the rest,
    and with onDataLoss=report, Spark can read the ranges that are missing.
    """
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_records([TopicPartition(ten, 0, 6)]).values():
        deleted.result(30)
    starting = f'{{"{ten}":{{"0":2,"1":0}}}}'

    with pytest.raises(Exception, match=r"startingOffsets is 2 .* which now starts at 6.* failOnDataLoss=false"):
        load(ten, startingOffsets=starting).count()
    rest = [(0, 6), (0, 7), (0, 8), (0, 9), *((1, n) for n in range(5))]
    assert rest == offsets(load(ten, startingOffsets=starting, failOnDataLoss="false"))
    log = str(tmp_path / "losses")
    assert rest == offsets(load(ten, startingOffsets=starting, onDataLoss="report", dataLossLog=log))
    (lost,) = spark.read.json(log).select("topic", "partition", "start_offset", "end_offset").distinct().collect()
    assert (ten, 0, 2, 6) == tuple(lost)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "no-such-topic"}, "topic 'no-such-topic': it does not exist"),
        ({"kafka.isolation.level": "none"}, "isolation.level=none is unknown"),
        ({"startingOffsets": "latest"}, "starting offset can't be latest"),
        ({"onDataLoss": "skip", "failOnDataLoss": "true"}, "onDataLoss=skip contradicts failOnDataLoss=true"),
        (
            {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "1000"},
            r".*127\.0\.0\.1:1.*Connection refused",
        ),
    ],
)
def test_a_wrong_option_fails_before_any_task(load, ten, options, sentence):
    """
    An invalid option fails before any task starts.  The error begins with the sentence that names the fix, and contains
    no traceback.
    """
    with pytest.raises(Exception) as failed:
        load(options.pop("subscribe", ten), **options).count()

    assert re.search(rf"^\[\w+\] [^:]*: [\w.]+: {sentence}", str(failed.value)), failed.value
    assert "Traceback" not in str(failed.value)
