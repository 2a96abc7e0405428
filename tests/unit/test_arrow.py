"""The arguments of `tidemill.arrow`: options as Python values, and what is refused before a connection is opened."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tidemill import arrow
from tidemill.columnar import batch_plan
from tidemill.columnar.offset_bound import AtTimestamp, Specific
from tidemill.columnar.source_options import SourceOptions
from tidemill.model.partition import TopicPartition

BROKER = "127.0.0.1:9"
TABLE = pa.table({"value": ["v"]})


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., SourceOptions]:
    """Return a function `parsed(topic, **options)` that returns the options of a read and opens no connection."""
    plans: list[SourceOptions] = []
    monkeypatch.setattr(batch_plan, "plan", lambda options, _: plans.append(options) or [])

    def read(topic: str | None = "t", **options: Any) -> SourceOptions:
        arrow.read(topic, **{"bootstrap_servers": BROKER} | options)
        return plans[-1]

    return read


def test_values_of_python_are_options(parsed: Callable[..., SourceOptions]) -> None:
    """
    Numbers, booleans, dictionaries and datetimes mean the same as the text that Spark takes; None leaves an option
    unset.
    """
    options = parsed(
        startingOffsets={"t": {"0": 3}},
        endingTimestamp=datetime(1970, 1, 1, 0, 0, 2, 345_678, tzinfo=UTC),
        includeHeaders=True,
        minPartitions=None,
        **{"kafka.fetch.max.bytes": 100_000, "kafkaConsumer.pollTimeoutMs": 5},
    )

    assert Specific({TopicPartition("t", 0): 3}) == options.starting
    assert AtTimestamp(2_345) == options.ending
    assert (True, None, 5) == (options.has_headers, options.partitions_min, options.poll_timeout_ms)
    assert 100_000 == options.connection.fetch_bytes_max


def test_the_same_dictionary_fits_spark(parsed: Callable[..., SourceOptions]) -> None:
    """
    A dictionary of text options for Spark is accepted, including the brokers and the subscription.
    """
    expected = parsed(startingOffsets="earliest")

    spark = {"kafka.bootstrap.servers": BROKER, "subscribe": "t", "startingOffsets": "earliest"}

    assert expected == parsed(None, bootstrap_servers=None, **spark)


@pytest.mark.parametrize(
    "options",
    [
        {"kafka.sasl.password": "hunter2", "Kafka.sasl.password": "hunter2"},
        {"kafka.sasl.password": b"hunter2"},
        {"kafka.ssl.key.password": 2.5, "kafka.sasl.password": "hunter2"},
    ],
    ids=["given twice", "bytes", "another value is wrong"],
)
def test_an_error_shows_no_secret(options: dict[str, Any]) -> None:
    """
    An error about an argument that is a secret names the argument and hides its value.
    """
    with pytest.raises((ValueError, TypeError)) as raised:
        arrow.read("t", bootstrap_servers=BROKER, **options)

    assert "password" in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert "2.5" not in str(raised.value)


@pytest.mark.parametrize(
    ("topic", "options", "sentence"),
    [
        ("t", {"startingOffset": "latest"}, "option startingOffset is unknown: did you mean startingOffsets?"),
        ("t", {"zzz": 1}, "option zzz is unknown: remove it"),
        ("t", {"bootstrap_servers": None}, "bootstrap_servers is missing: name the brokers"),
        ("t", {"kafka.bootstrap.servers": "h:1"}, "kafka.bootstrap.servers is given twice, as h:1 and as 127.0.0.1:9"),
        ("t", {"subscribe": "u"}, "subscribe is given twice, as u and as t: remove one of them"),
        ("t", {"includeHeaders": True, "includeheaders": False}, "includeheaders is given twice, as true and as false"),
        (None, {}, "topic is missing: name a topic, or pass the option subscribePattern or assign"),
        ("t", {"columns": "value"}, "columns='value' is a string: pass a list, columns=['value']"),
        ("t", {"columns": []}, "columns is empty: name at least one"),
        ("t", {"columns": ["key", "key"]}, "columns has 'key' twice: remove one of them"),
        ("t", {"columns": ["keys"]}, "column 'keys' is unknown; the columns are key, value, topic"),
        ("t", {"startingTimestamp": datetime(2013, 1, 1)}, "startingTimestamp=2013-01-01 00:00:00 has no time zone"),  # noqa: DTZ001
        ("t", {"startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
        ("t", {"kafka.security.protocol": "SASL"}, "security.protocol=SASL is unknown: use PLAINTEXT"),
    ],
)
def test_a_wrong_argument_of_read_is_refused(topic: str | None, options: dict[str, Any], sentence: str) -> None:
    """
    A wrong argument raises ValueError with a message that begins with what is wrong.
    """
    with pytest.raises(ValueError) as raised:
        arrow.read(topic, **{"bootstrap_servers": BROKER} | options)

    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize(
    ("table", "options", "sentence"),
    [
        (TABLE, {"topics": "t"}, "option topics is unknown: did you mean topic?"),
        (TABLE, {"bootstrap_servers": None}, "bootstrap_servers is missing"),
        (TABLE, {"topic": None}, "topic option required when no 'topic' attribute is present"),
        (pa.table({"key": ["k"]}), {}, "Required attribute 'value' not found"),
        (pa.table({"value": [1]}), {}, "value attribute unsupported type int64"),
        (TABLE, {"kafka.acks": 1}, "acks=1 is not supported"),
    ],
)
def test_a_wrong_argument_of_write_is_refused(table: Any, options: dict[str, Any], sentence: str) -> None:
    """
    A wrong option or a wrong column raises ValueError before a connection is opened.
    """
    with pytest.raises(ValueError) as raised:
        arrow.write(**{"topic": "t", "table": table, "bootstrap_servers": BROKER} | options)

    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize(
    "value", ["t", [1], pa.array(["v"]), pa.chunked_array([["v"]])], ids=lambda v: type(v).__name__
)
def test_what_is_not_a_table_is_refused(value: Any) -> None:
    """
    A value without columns raises TypeError, which names its type and what to pass instead.
    """
    with pytest.raises(TypeError, match=rf"^table is a {type(value).__name__}: pass a pyarrow Table, RecordBatch"):
        arrow.write("t", value, bootstrap_servers=BROKER)


def test_an_option_of_another_type_is_refused() -> None:
    """
    An option whose value cannot be text raises TypeError.
    """
    with pytest.raises(TypeError, match=r"^minPartitions=1\.5 is a float: pass text, a number, a boolean or a"):
        arrow.read("t", bootstrap_servers=BROKER, minPartitions=1.5)  # type: ignore[arg-type]


def test_without_pyarrow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Without pyarrow, both functions raise an error that says how to install it.
    """
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    for call in (arrow.read, lambda topic, **_: arrow.write(topic, TABLE)):
        with pytest.raises(ImportError, match=r"^tidemill\.arrow needs pyarrow: pip install 'tidemill\[arrow\]'$"):
            call("t", bootstrap_servers=BROKER)


def test_the_import_loads_neither_pyarrow_nor_pyspark() -> None:
    """
    Programs may import `tidemill.arrow` without the cost of importing pyarrow before they use it, and never need
    pyspark.
    """
    code = "import sys, tidemill.arrow; print([name for name in ('pyarrow', 'pyspark') if name in sys.modules])"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert ("[]\n", "") == (finished.stdout, finished.stderr)
