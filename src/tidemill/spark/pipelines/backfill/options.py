"""The options of the pipeline `backfill`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tidemill.spark.pipelines.frame.option import option
from tidemill.spark.pipelines.frame.quantity import parse_size

JSON: Final = "json"  # the record's value is the entire row, as JSON
PART_RECORDS: Final = 1_000_000
_PART_S: Final = 60  # with a rate limit, a part takes about this long, so that a stop request takes effect soon
_PART_RECORDS_MIN: Final = 10_000  # smaller parts would spend most of their time on startup


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillOptions:
    """What is read, how each row is converted to a record, and how fast records are written."""

    source: str = option("The files: a directory, a file or a glob, on any file system of Spark's.", metavar="DIR|GLOB")
    topic: str = option("The topic to write; it must exist.")
    timestamp: str = option(
        "The column with the event time, which decides the order and becomes the record's timestamp: a timestamp, a "
        "date, or milliseconds since 1970.",
        metavar="COLUMN",
    )
    format: Literal["parquet", "csv", "json"] = option("The files' format; JSON has an object per line.")
    schema: str | None = option(
        "The columns of CSV or JSON files, such as 'carrier STRING, time TIMESTAMP'; without it, Spark infers them.",
        default=None,
        metavar="DDL",
    )
    reader: str | None = option(
        "Options of Spark's reader: 'nullValue=NA,sep=;', or a JSON object. CSV has a header unless header=false.",
        default=None,
        metavar="KEY=VALUE,…",
    )
    key: str | None = option(
        "The column that is the record's key; several become a JSON object. Without it, records have no key.",
        default=None,
        metavar="COLUMN,…",
    )
    value: str = option("`json` for the whole row as JSON, or a text or binary column.", default=JSON)
    headers: str | None = option(
        "Columns that become headers, with the column's name.", default=None, metavar="COLUMN,…"
    )
    partition: str | None = option(
        "The column with the record's partition; without it, or where it is null, the key's hash decides, as in Java.",
        default=None,
        metavar="COLUMN",
    )
    rate_records: int | None = option("The most records a second, of the whole job.", default=None)
    rate_bytes: int | None = option(
        "The most bytes of keys, values and headers a second, before compression, such as 10MiB.",
        default=None,
        parse=parse_size,
        metavar="SIZE",
    )
    part_records: int | None = option(
        f"About how many records are written between two points from which a run can resume; by default "
        f"{PART_RECORDS:,}, or what the rate allows in {_PART_S} s.",
        default=None,
    )
    tasks: int | None = option(
        "How many tasks write at the same time; by default as many as the session has cores.", default=None
    )
    then: str | None = option(
        "Goes on with this topic, from its end offsets before the first record was written.",
        default=None,
        metavar="TOPIC",
    )
    allow_expired: bool = option("Write even if the topic's retention will remove records at once.", default=False)

    def __post_init__(self) -> None:
        for name in ("source", "topic", "timestamp", "value"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name} is empty: set it")
        for name in ("rate_records", "rate_bytes", "part_records", "tasks"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ValueError(f"{name}={number} is not above 0: set a larger number, or leave the option out")
        if self.rate_records is not None and self.rate_bytes is not None:
            raise ValueError(
                f"rate_records={self.rate_records} and rate_bytes={self.rate_bytes} are both set: leave one of them out"
            )
        if self.schema is not None and self.format == "parquet":
            raise ValueError(f"schema={self.schema} is set for Parquet files, which have a schema: leave it out")
        if self.then == self.topic:
            raise ValueError(f"then={self.then} is the topic that is written: name the topic with the live records")
        for parse in (self.reader_options, lambda: self.key_columns, lambda: self.header_columns):
            parse()  # raises ValueError

    @property
    def key_columns(self) -> tuple[str, ...]:
        return _columns("key", self.key)

    @property
    def header_columns(self) -> tuple[str, ...]:
        return _columns("headers", self.headers)

    @property
    def rate(self) -> tuple[float | None, bool]:
        """The maximum rate per second, None if it is not limited; and whether it is in bytes rather than records."""
        return (self.rate_bytes, True) if self.rate_bytes is not None else (self.rate_records, False)

    def reader_options(self) -> Mapping[str, str]:
        """
        Return the options of Spark's reader that the option `reader` sets.

        Raise ValueError if it cannot be parsed.
        """
        if self.reader is None:
            return {}
        if self.reader.lstrip().startswith("{"):
            try:
                parsed = json.loads(self.reader)
            except ValueError as error:
                raise ValueError(f"reader={self.reader} is no JSON object ({error}): correct it") from error
            return {name: value if isinstance(value, str) else json.dumps(value) for name, value in parsed.items()}
        pairs = [pair.partition("=") for pair in self.reader.split(",")]
        if not all(name.strip() and sign for name, sign, _ in pairs):
            raise ValueError(
                f"reader={self.reader} is not KEY=VALUE,…: write for example nullValue=NA,sep=; or, for a value with a "
                'comma, a JSON object such as {"sep": ","}'
            )
        return {name.strip(): value for name, _, value in pairs}

    def records_per_part(self, records: int, bytes: int) -> int:
        """Return the approximate number of records per part; `records` and `bytes` are the totals of all files."""
        if self.part_records is not None:
            return self.part_records
        rate, is_in_bytes = self.rate
        if rate is None:
            return PART_RECORDS
        per_second = rate * max(records, 1) / max(bytes, 1) if is_in_bytes else rate
        return min(max(int(per_second * _PART_S), _PART_RECORDS_MIN), PART_RECORDS)

    def identity(self) -> dict[str, str]:
        """Return the options that must be the same when a run resumes, by name."""
        names = ("source", "topic", "timestamp", "format", "reader", "key", "value", "headers", "partition", "then")
        return {name: str(value) for name in names if (value := getattr(self, name)) is not None}


def _columns(name: str, text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    columns = tuple(column.strip() for column in text.split(","))
    if not all(columns):
        raise ValueError(f"{name}={text} has an empty name: write columns separated by commas")
    return columns
