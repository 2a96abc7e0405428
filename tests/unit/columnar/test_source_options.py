"""The options of the source have the names, meanings and errors of Spark's Kafka source."""

import pickle

import pytest

from tidemill.columnar import source_options, waiting_options
from tidemill.columnar.data_loss import OnDataLoss
from tidemill.columnar.offset_bound import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    AtTimestamps,
    BeforeEnd,
    BeforeNow,
    Committed,
    Everywhere,
    Specific,
)
from tidemill.columnar.source_option_table import OPTIONS
from tidemill.model.partition import TopicPartition

AT = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t"}


def test_defaults_are_those_of_sparks_kafka_source():
    """
    The default start is latest for streams and earliest for batches; other defaults are those in Spark's guide.
    """
    batch, stream = source_options.for_batch(AT), source_options.for_stream(AT)

    assert (Everywhere(EARLIEST), Everywhere(LATEST), Everywhere(LATEST)) == (
        batch.starting,
        batch.ending,
        stream.starting,
    )
    assert (True, False, 120_000, 3, 10, 900_000, None, None) == (
        stream.data_loss.on_data_loss is OnDataLoss.FAIL,
        stream.has_headers,
        stream.poll_timeout_ms,
        stream.offset_fetch_retries,
        stream.offset_fetch_retry_interval_ms,
        stream.trigger_delay_ms_max,
        stream.partitions_min,
        stream.records_per_partition_max,
    )


def test_records_may_be_dead_letters():
    """
    The option `records` adds the columns of dead letters; any other value is refused.
    """
    assert source_options.for_batch({**AT, "records": " Dead-Letters "}).has_letters
    assert not source_options.for_stream({**AT, "records": "any"}).has_letters
    with pytest.raises(ValueError, match="records=letters is unknown: use any, dead-letters or waiting"):
        source_options.for_batch({**AT, "records": "letters"})


def test_what_waits_is_read_by_batch_queries_only():
    """
    What waits has no offsets, cannot be lost, and is read by a task for each partition, so other options are refused.
    """
    waiting = {**AT, "records": "Waiting"}
    parsed = source_options.for_batch(waiting)

    assert (True, False) == (parsed.is_waiting, parsed.has_letters)
    assert not source_options.for_batch(AT).is_waiting
    with pytest.raises(
        ValueError, match="records=waiting is not supported in streaming queries, because it shows what"
    ):
        source_options.for_stream(waiting)
    with pytest.raises(ValueError, match="mode=share is not supported in batch reads"):
        source_options.for_batch({**waiting, "mode": "share"})


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("startingOffsets", "a record has no offset before it is released: filter on arrival or deliver_at instead"),
        ("endingTimestamp", "a record has no offset before it is released"),
        ("failOnDataLoss", "records end to wait when they are released, so none of them is lost: remove it"),
        ("minPartitions", "each partition of the topic is read by one task: remove it"),
    ],
)
def test_an_option_that_does_not_fit_what_waits_is_refused(name: str, fix: str):
    with pytest.raises(ValueError) as refused:
        source_options.for_batch({**AT, "records": "waiting", name.lower(): "5"})

    assert str(refused.value).startswith(f"{name}=5 is not supported with records=waiting: {fix}")
    assert all(option in source_options.KNOWN.values() for option in waiting_options.REFUSED)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("-10m", BeforeNow(600_000)),
        ("-90S", BeforeNow(90_000)),
        ("-2h", BeforeNow(7_200_000)),
        ("-1d", BeforeNow(86_400_000)),
        ("-1000", BeforeEnd(1_000)),
        ("group:a b:c", Committed("a b:c")),
    ],
)
def test_a_bound_may_be_relative(text, bound):
    """
    A bound may be a time before now, a number of offsets before the end, or the committed offsets of a group.
    """
    batch = source_options.for_batch({**AT, "startingoffsets": text, "endingoffsets": text})

    assert (bound, bound) == (batch.starting, batch.ending)
    assert bound == source_options.for_stream({**AT, "startingoffsets": text}).starting


@pytest.mark.parametrize(("text", "meant"), [("-1", "latest"), ("-2", "earliest")])
def test_a_symbol_of_the_json_form_on_its_own_is_logged(caplog, text, meant):
    """
    -1 and -2 are symbols only in the JSON format.  On their own they are numbers, so a warning names the symbol that
    may be meant.
    """
    assert BeforeEnd(-int(text)) == source_options.for_stream({**AT, "startingoffsets": text}).starting

    assert [f"startingOffsets={text} means the last {text[1:]} offsets; write {meant} if you mean that"] == [
        record.getMessage() for record in caplog.records
    ]


@pytest.mark.parametrize(
    ("options", "on_data_loss"),
    [
        ({}, OnDataLoss.FAIL),
        ({"failondataloss": "false"}, OnDataLoss.SKIP),
        ({"ondataloss": "skip"}, OnDataLoss.SKIP),
        ({"ondataloss": "Fail", "failondataloss": "true"}, OnDataLoss.FAIL),
        ({"ondataloss": "report", "datalosslog": "/losses", "failondataloss": "false"}, OnDataLoss.REPORT),
    ],
)
def test_fail_on_data_loss_is_an_alias(options, on_data_loss):
    """
    failOnDataLoss is Spark's name for two of the three values of onDataLoss.
    """
    assert on_data_loss is source_options.for_stream({**AT, **options}).data_loss.on_data_loss


@pytest.mark.parametrize(
    ("directory", "written"),
    [("s3://bucket/losses", "s3://bucket/losses"), ("/var/losses", "/var/losses")],
)
def test_losses_are_written_to_a_directory_or_a_uri(directory, written):
    """
    dataLossLog may be a URI or the absolute path of a directory; both are kept as they were written.
    """
    options = {**AT, "ondataloss": "report", "datalosslog": directory}

    assert written == source_options.for_batch(options).data_loss.log


def test_a_relative_directory_is_that_of_the_driver(tmp_path, monkeypatch):
    """
    A relative directory is resolved on the driver, because executors have different working directories.
    """
    monkeypatch.chdir(tmp_path)
    options = {**AT, "ondataloss": "report", "datalosslog": "losses"}

    assert str(tmp_path / "losses") == source_options.for_batch(options).data_loss.log


@pytest.mark.parametrize(
    ("text", "size"), [("1048576", 1 << 20), ("64m", 64 << 20), ("1GB", 1 << 30), ("2 kb", 2 << 10), ("8b", 8)]
)
def test_sizes_are_written_as_in_spark(text, size):
    """
    Sizes are written as in Spark, with binary units, and a number without a unit is in bytes.
    """
    options = source_options.for_stream({**AT, "maxbytespertrigger": text, "maxbytesperpartition": text})

    assert (size, size) == (options.bytes_per_trigger_max, options.bytes_per_partition_max)


def test_every_documented_option_is_known(caplog):
    """
    Every option in the table of the documentation is known, so none is logged as misspelt.
    """
    source_options.warn_of_unknown(
        {option.name.lower(): "" for option in OPTIONS if not option.name.startswith("kafka.")},
        source_options.KNOWN,
    )

    assert [] == caplog.records


def test_options_can_be_pickled():
    """
    Options can be pickled, because Spark pickles them with every task.
    """
    options = source_options.for_stream({**AT, "startingoffsets": '{"t":{"0":5}}', "kafka.security.protocol": "SSL"})

    assert options == pickle.loads(pickle.dumps(options))  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        ({"startingoffsets": "earliest"}, Everywhere(EARLIEST)),
        ({"startingoffsets": "LATEST"}, Everywhere(LATEST)),
        (
            {"startingoffsets": '{"a":{"0":23,"1":-1},"b":{"0":-2}}'},
            Specific({TopicPartition("a", 0): 23, TopicPartition("a", 1): LATEST, TopicPartition("b", 0): EARLIEST}),
        ),
        ({"startingtimestamp": "1000", "startingoffsets": "earliest"}, AtTimestamp(1000)),
        (
            {"startingoffsetsbytimestamp": '{"a":{"0":1000}}', "startingoffsets": "earliest"},
            AtTimestamps({TopicPartition("a", 0): 1000}),
        ),
        (
            {"startingtimestamp": "7", "startingoffsetsbytimestamp": '{"a":{"0":1000}}'},
            AtTimestamp(7),
        ),
    ],
)
def test_the_most_specific_of_three_options_wins(options, bound):
    """
    The options take precedence in the order startingTimestamp, startingOffsetsByTimestamp, startingOffsets.
    """
    assert bound == source_options.for_stream({**AT, **options}).starting


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": None}, "One of the following options must be specified"),
        ({"assign": '{"t":[0]}'}, "Only one of the following options can be specified"),
        ({"subscribe": " , "}, "No topics to subscribe to"),
        ({"subscribe": None, "subscribepattern": " "}, "Pattern to subscribe is empty"),
        ({"subscribe": None, "subscribepattern": "a("}, "is not a regular expression"),
        ({"subscribe": None, "assign": "t"}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}'),
        ({"subscribe": None, "assign": "{}"}, "No topicpartitions to assign"),
        ({"kafka.bootstrap.servers": None}, "Option 'kafka.bootstrap.servers' must be specified"),
        ({"startingoffsets": "first"}, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'),
        ({"startingoffsets": '{"t":{"0":-3}}'}, "-1 for latest or -2 for earliest"),
        ({"startingtimestamp": "noon"}, "Expected a timestamp in milliseconds"),
        ({"startingoffsetsbytimestampstrategy": "guess"}, "use error or latest"),
        ({"minpartitions": "0"}, "minPartitions must be positive"),
        ({"maxrecordsperpartition": "-1"}, "maxRecordsPerPartition must be positive"),
        ({"startingoffsets": "-10w"}, "one of the units s, m, h and d, for example -1000 or -10m"),
        ({"startingoffsets": "-0"}, "startingOffsets=-0 is not a position"),
        ({"startingoffsets": "group: "}, "names no group: write startingOffsets=group:NAME"),
        ({"commitgroup": ""}, "commitGroup='' names no group"),
        ({"maxbytespertrigger": "64q"}, "maxBytesPerTrigger=64q is not a size"),
        ({"maxbytesperpartition": "0"}, "maxBytesPerPartition=0 is not a size"),
        ({"ondataloss": "ignore"}, "onDataLoss=ignore is unknown: use fail, skip, report"),
        ({"ondataloss": "skip", "failondataloss": "true"}, "onDataLoss=skip contradicts failOnDataLoss=true"),
        ({"ondataloss": "fail", "failondataloss": "false"}, "onDataLoss=fail contradicts failOnDataLoss=false"),
        ({"ondataloss": "report"}, "onDataLoss=report needs option dataLossLog"),
        ({"datalosslog": "/x"}, "dataLossLog=/x is used only with onDataLoss=report"),
        ({"failondataloss": "maybe"}, "failOnDataLoss=maybe must be true or false"),
        ({"maxtriggerdelay": "soon"}, "maxTriggerDelay=soon is not a duration"),
        ({"minoffsetspertrigger": "9", "maxoffsetspertrigger": "8"}, "is higher than the maxOffsetsPerTrigger(8)"),
        ({"endingoffsets": "latest"}, "ending offset not valid in streaming queries"),
        ({"kafka.auto.offset.reset": "earliest"}, "Instead set the source option 'startingOffsets'"),
        ({"kafka.key.deserializer": "x"}, "Kafka option 'key.deserializer' is not supported"),
        ({"kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported"),
        ({"kafka.interceptor.classes": "x"}, "Kafka option 'interceptor.classes' is not supported"),
        ({"kafka.security.protocol": "SASL_SSL"}, "sasl.mechanism is not set"),
    ],
)
def test_an_invalid_option_is_refused_with_the_fix(options, sentence):
    """
    An invalid option is refused with an error that names the fix, and that uses Spark's wording where Spark has a
    message.
    """
    given = {key: value for key, value in {**AT, **options}.items() if value is not None}

    with pytest.raises(ValueError) as refused:
        source_options.for_stream(given)

    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingoffsets": "latest"}, "starting offset can't be latest for batch queries"),
        ({"endingoffsets": "earliest"}, "ending offset can't be earliest for batch queries"),
        ({"startingoffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest"),
        ({"endingoffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest"),
    ],
)
def test_a_batch_cannot_start_at_its_end(options, sentence):
    """
    A batch that starts at the end is refused, because it would always be empty.
    """
    with pytest.raises(ValueError) as refused:
        source_options.for_batch({**AT, **options})

    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("15m", 900_000), ("90s", 90_000), ("500ms", 500), ("2h", 7_200_000), ("250", 250)]
)
def test_durations_are_written_as_in_spark(text, milliseconds):
    """
    Durations are written as in Spark, and a number without a unit is in milliseconds.
    """
    assert milliseconds == source_options.for_stream({**AT, "maxtriggerdelay": text}).trigger_delay_ms_max


def test_a_misspelt_option_is_logged(caplog):
    """
    A misspelt option is ignored, as in Spark, but logged with a warning that suggests the right name.
    """
    source_options.for_stream({**AT, "startingoffset": "earliest"})

    assert ["option startingoffset is ignored: did you mean startingOffsets?"] == [
        r.getMessage() for r in caplog.records
    ]
