"""Cells of tables that show records of a queue."""

from datetime import UTC, datetime
from typing import Final

from tidemill.batches.records import Record
from tidemill.cli.record_json import bytes_as_json

RECORD_COLUMNS: Final = ("key", "value")
_ESCAPES: Final = {code: f"\\x{code:02x}" for code in range(32)} | {
    ord("\n"): "\\n",
    ord("\t"): "\\t",
    ord("\r"): "\\r",
}


def record_cells(record: Record) -> tuple[str | None, str | None]:
    """Return the cells for RECORD_COLUMNS: a record is one line, and bytes that are not UTF-8 are base64."""
    return _text(record.key), _text(record.value)


def moment(milliseconds: int) -> str:
    """Return a time since the epoch as UTC with seconds, or in milliseconds if it is beyond the year 9999."""
    try:
        return datetime.fromtimestamp(milliseconds // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError):
        return f"{milliseconds} ms"


def _text(data: bytes | None) -> str | None:
    shown = bytes_as_json(data)
    if isinstance(shown, dict):
        return f"base64:{shown['base64']}"
    return None if shown is None else shown.translate(_ESCAPES)
