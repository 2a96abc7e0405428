"""Reads topics as Arrow and writes Arrow to topics, for DuckDB, Polars, pandas and pyarrow.  It does not need Spark.

    import tidemill.arrow

    rows = tidemill.arrow.read("flights", bootstrap_servers="127.0.0.1:9092", columns=["key", "value"])
    tidemill.arrow.write("flights-copy", rows, bootstrap_servers="127.0.0.1:9092")

Every other keyword is an option of `format("tidemill")` in Spark, with the same name and meaning.  Names with a dot are
passed in a dictionary, and the same dictionary fits Spark's `.options(**security)`:

    security = {"kafka.security.protocol": "SSL", "kafka.ssl.ca.location": "ca.pem"}
    rows = tidemill.arrow.read("flights", bootstrap_servers="127.0.0.1:9093", startingOffsets="latest", **security)

A value is text, as in Spark, or the equivalent Python value: a number, True or False, a dictionary or list for an
option that takes JSON, a datetime with a time zone for an option that takes milliseconds.  None leaves an option unset.
Names are not case-sensitive.  An unknown name is refused.
"""

import difflib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidemill.client.failures import ClientError
from tidemill.client.security_keys import is_secret
from tidemill.client.setting_values import HIDDEN
from tidemill.columnar import letter_columns, sink_options, source_options, waiting_columns, work_reader
from tidemill.columnar.data_loss import DataLossError
from tidemill.columnar.parallel_reader import ParallelReader
from tidemill.columnar.row_faults import RowRefused
from tidemill.columnar.source_options import SourceOptions
from tidemill.columnar.subscription import STRATEGIES
from tidemill.columnar.topic_writer import TopicWriter, WriteSummary

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ClientError", "DataLossError", "RowRefused", "WriteSummary", "read", "write"]

Value = str | bool | int | datetime | Mapping[str, Any] | Sequence[Any] | None

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ArrowStream(Protocol):
    """A table of any library that can export Arrow data, such as a DataFrame of Polars or pandas."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def read(
    topic: str | None = None,
    *,
    bootstrap_servers: str | None = None,
    columns: Sequence[str] | None = None,
    **options: Value,
) -> "pa.RecordBatchReader":
    """
    Return the records of a topic as a stream of Arrow record batches, which is read only once.

    `topic` is a topic, or several separated by commas; None if the options `subscribePattern` or `assign` choose what
    is read.  The read begins at `startingOffsets` (default: earliest) and ends at `endingOffsets` (default: latest, the
    end at the time of this call).  `columns` are the columns to decode, in that order; the default is key, value,
    topic, partition, offset, timestamp and timestampType, with `includeHeaders=True` also headers, and with
    `records="dead-letters"` also what the headers of dead letters say.  With `records="waiting"`, the records are those
    of timer topics that are not due yet; arrival, deliver_at and timer_id take the place of offset and timestampType.

    The records of a partition are returned in offset order; record batches of different partitions are interleaved.  Up
    to four threads read ahead of the caller, so memory does not grow with the topic.  Their connections are closed when
    all rows are read, after an error, and when the reader is dropped (`del reader`); `reader.close()` alone does not
    close them.

    Raise ImportError without pyarrow, ValueError or TypeError for an invalid argument, and ClientError (including
    UnknownTopic) if the cluster cannot be read.  The reader raises ClientError as well, and DataLossError if records
    are missing.
    """
    pa = _pyarrow()
    texts = _texts(options, bootstrap_servers, source_options.KNOWN)
    _place(texts, "subscribe", topic)
    if not texts.keys() & set(STRATEGIES):
        raise ValueError("topic is missing: name a topic, or pass the option subscribePattern or assign")
    if columns is not None:
        texts["includeheaders"] = str("headers" in _checked_columns(columns)).lower()
    parsed = source_options.for_batch(texts)
    wanted = _schema(columns, parsed)
    work = ParallelReader(parsed, wanted.names, work_reader.plan(parsed))
    # A reader made by `from_batches` raises the errors of the iterator unchanged, unlike other readers.  Its method
    # `close` does not close the iterator.
    return pa.RecordBatchReader.from_batches(wanted, work.record_batches())


def write(
    topic: str | None,
    table: "pa.Table | pa.RecordBatch | pa.RecordBatchReader | ArrowStream",
    *,
    bootstrap_servers: str | None = None,
    **options: Value,
) -> WriteSummary:
    """
    Write a table to a topic, and return a summary once all in-sync replicas have every record.

    `table` is a pyarrow Table, RecordBatch or RecordBatchReader, a DataFrame of Polars or pandas, a relation of DuckDB,
    or anything else with `__arrow_c_stream__`.  A stream is read once, without collecting it in memory.  The column
    `value` (text or binary) is required; `key`, `headers`, `partition` and `timestamp` are optional.  Timer topics, and
    no others, also take `deliver_at` (a timestamp with a time zone, or ms since the epoch) and `timer_id`.  Any other
    column is ignored.  `topic` is the topic of all rows; if it is None, the column `topic` contains the topic of each
    row.

    If the call raises an error, some of the rows may be stored, and a second call would store them again.

    Raise ImportError without pyarrow, ValueError or TypeError for an invalid argument or column, RowRefused (a
    ValueError) for an invalid row, and ClientError (including UnknownTopic and DeliveryFailed) if the cluster does not
    store the rows.
    """
    pa = _pyarrow()
    rows = _stream(pa, table)
    texts = _texts(options, bootstrap_servers, sink_options.KNOWN)
    _place(texts, "topic", topic)
    with TopicWriter(sink_options.parse(texts), rows.schema) as writer:
        for batch in rows:
            writer.write(batch)
        return writer.flush()


def _schema(columns: Sequence[str] | None, options: SourceOptions) -> "pa.Schema":
    if options.is_waiting:
        return waiting_columns.schema(columns, has_headers=options.has_headers)
    waiting_columns.refuse(columns or ())
    return letter_columns.schema(columns, has_headers=options.has_headers, has_letters=options.has_letters)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("tidemill.arrow needs pyarrow: pip install 'tidemill[arrow]'", name="pyarrow") from error
    return pyarrow


def _texts(options: Mapping[str, Value], bootstrap_servers: str | None, known: Mapping[str, str]) -> dict[str, str]:
    """Return the options as Spark passes them to a data source: names in lower case, and values as text."""
    texts: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower not in known and not lower.startswith("kafka."):
            near = difflib.get_close_matches(lower, known, n=1)
            hint = f"did you mean {known[near[0]]}?" if near else "remove it"
            raise ValueError(f"option {name} is unknown: {hint}")
        if value is not None:
            _place(texts, lower, _text(name, value))
    _place(texts, "kafka.bootstrap.servers", bootstrap_servers)
    if "kafka.bootstrap.servers" not in texts:
        raise ValueError("bootstrap_servers is missing: name the brokers, for example bootstrap_servers='HOST:9092'")
    return texts


def _text(name: str, value: Value) -> str:
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case datetime():
            if value.tzinfo is None:
                raise ValueError(f"{name}={value} has no time zone: pass for example datetime.now(UTC)")
            return str((value - _EPOCH) // timedelta(milliseconds=1))
        case Mapping() | list() | tuple():
            return json.dumps(value)
    shown = f"{name}={_shown(name, repr(value))}"
    raise TypeError(f"{shown} is a {type(value).__name__}: pass text, a number, a boolean or a dictionary")


def _shown(name: str, value: str) -> str:
    """Return the value of an option as an error message shows it, hidden if it may be a secret."""
    return HIDDEN if is_secret(name.lower().removeprefix("kafka.")) else value


def _place(texts: dict[str, str], name: str, value: str | None) -> None:
    """Add an option to `texts`, or nothing if the value is None.  Raise ValueError if the option is already set."""
    if value is None:
        return
    if name in texts:
        shown = f"{_shown(name, texts[name])} and as {_shown(name, value)}"
        raise ValueError(f"{name} is given twice, as {shown}: remove one of them")
    texts[name] = value


def _checked_columns(columns: Sequence[str]) -> Sequence[str]:
    """Return `columns`.  Raise ValueError if they are a string or empty, or if one is repeated."""
    if isinstance(columns, str):
        raise ValueError(f"columns={columns!r} is a string: pass a list, columns=[{columns!r}]")
    if not columns:
        raise ValueError("columns is empty: name at least one, for example columns=['offset'] to count records")
    twice = next((name for name in columns if list(columns).count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"columns has {twice!r} twice: remove one of them")
    return columns


def _stream(pa: Any, table: Any) -> "pa.RecordBatchReader":
    if isinstance(table, pa.RecordBatchReader):
        return table
    if hasattr(table, "__arrow_c_stream__"):
        try:
            return pa.RecordBatchReader.from_stream(table)
        except pa.ArrowInvalid:  # a single column also has `__arrow_c_stream__`, but it is not a table
            pass
    raise TypeError(
        f"table is a {type(table).__name__}: pass a pyarrow Table, RecordBatch or RecordBatchReader, or an object with "
        "__arrow_c_stream__ that has columns, such as a data frame of Polars or pandas"
    )
