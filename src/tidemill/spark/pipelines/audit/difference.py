"""A difference that an audit found, and how a pair of records is compared to determine which parts differ."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from tidemill.spark.pipelines.audit.options import Ignored
from tidemill.spark.pipelines.frame.table import Table

COLUMNS = ("partition", "offset", "target_offset", "key", "what", "source", "target")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RecordText(NamedTuple):
    """One record, with each part as a short text."""

    partition: int
    offset: int
    key: str
    value: str
    headers: str
    timestamp_us: int


@dataclass(frozen=True, slots=True)
class Difference:
    """One record that only one side has, or one pair of records that differ.  A missing record is None."""

    what: str  # missing, additional, duplicate, order, or the parts that differ
    source: RecordText | None
    target: RecordText | None

    @property
    def cells(self) -> tuple[Any, ...]:
        here = self.source or self.target
        assert here is not None
        shown = [None if it is None else self._shown(it) for it in (self.source, self.target)]
        target_offset = None if self.target is None else self.target.offset
        source_offset = None if self.source is None else self.source.offset
        return (here.partition, source_offset, target_offset, here.key, self.what, *shown)

    def _shown(self, record: RecordText) -> str:
        parts = {"key": record.key, "value": record.value, "headers": record.headers}
        named = self.what.split(", ")
        texts = [parts[name] for name in named if name in parts]
        if "timestamp" in named:
            texts.append((_EPOCH + timedelta(microseconds=record.timestamp_us)).isoformat(timespec="milliseconds"))
        return "; ".join(texts) or record.value


def record_text(row: Any) -> RecordText:
    """Convert a row with the columns of `checksum.described`."""
    return RecordText(row.partition, row.offset, row.key_text, row.value_text, row.headers_text, row.timestamp_us)


def changed_parts(source: RecordText, target: RecordText, ignored: Collection[Ignored]) -> str:
    """Return which parts of two records differ, such as "value, timestamp"; empty if none does."""
    pairs = {
        "key": source.key != target.key,
        "value": source.value != target.value,
        "headers": source.headers != target.headers and Ignored.HEADERS not in ignored,
        "timestamp": source.timestamp_us != target.timestamp_us and Ignored.TIMESTAMP not in ignored,
    }
    return ", ".join(name for name, differs in pairs.items() if differs)


def table_of(differences: Sequence[Difference], shown_max: int) -> Table:
    return Table("The first differences", COLUMNS, [it.cells for it in differences[:shown_max]])
