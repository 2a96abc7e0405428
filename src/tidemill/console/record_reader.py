"""Reads a page of a partition's records, and renders keys and values as text, JSON or hexadecimal bytes.

The results are plain text of a bounded size; the templates escape it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidemill.batches.batch import spans
from tidemill.batches.records import Record, read_records
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.client.raw_fetcher import RawFetcher
from tidemill.model.partition import TopicPartition

BYTES_READ_MAX: Final = 16 << 20  # per page: enough for fifty records of typical size
BATCH_BYTES_MAX: Final = 64 << 20  # per batch, after decompression
SHOWN_BYTES_MAX: Final = 2 << 10  # per key, value or header, if the page shows several records
SHOWN_ALONE_BYTES_MAX: Final = 128 << 10  # per key, value or header, if the page shows a single record
HEADERS_MAX: Final = 50  # per record

AUTO: Final = "auto"
TEXT: Final = "text"
JSON: Final = "json"
HEX: Final = "hex"
FORMATS: Final = (AUTO, TEXT, JSON, HEX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A key, value or header as a page shows it."""

    text: str
    format: str  # TEXT, JSON or HEX
    size_bytes: int
    is_cut: bool  # whether `text` shows only the first bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRow:
    offset: int
    timestamp_ms: int | None
    key: Shown | None
    value: Shown | None
    headers: Sequence[tuple[str, Shown | None]]
    header_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    rows: Sequence[RecordRow]  # in ascending order of offsets
    next_offset: int  # the first offset that was not read
    is_cut: bool  # whether BYTES_READ_MAX ended the read


def read_page(
    settings: ConnectionSettings, partition: TopicPartition, start_offset: int, end_offset: int, format_: str
) -> RecordPage:
    """Return the records of [start_offset, end_offset).  Raise ClientError, or ValueError for a malformed batch."""
    found: list[Record] = []
    size = 0
    next_offset = end_offset
    cluster = ClusterMetadata(settings)
    try:
        cluster.refresh({partition.topic})
        for run in RawFetcher(cluster, deadline_ms=settings.api_timeout_ms).batches(
            partition, start_offset, end_offset
        ):
            for span in spans(run):
                records = read_records(run, span.position, BATCH_BYTES_MAX)
                found += [it for it in records if start_offset <= it.offset < end_offset]
                next_offset = span.header.end_offset
            size += len(run)
            if size > BYTES_READ_MAX:
                break
        else:
            next_offset = end_offset
    finally:
        cluster.close()
    bytes_max = SHOWN_ALONE_BYTES_MAX if end_offset - start_offset == 1 else SHOWN_BYTES_MAX
    rows = [_row(record, format_, bytes_max) for record in found]
    return RecordPage(rows=rows, next_offset=min(next_offset, end_offset), is_cut=next_offset < end_offset)


def _row(record: Record, format_: str, bytes_max: int) -> RecordRow:
    return RecordRow(
        offset=record.offset,
        timestamp_ms=None if record.timestamp < 0 else record.timestamp,
        key=show(record.key, format_, bytes_max),
        value=show(record.value, format_, bytes_max),
        headers=[(name[:200], show(value, format_, bytes_max)) for name, value in record.headers[:HEADERS_MAX]],
        header_count=len(record.headers),
    )


def show(data: bytes | None, format_: str, bytes_max: int) -> Shown | None:
    """
    Return `data` in one of FORMATS.  AUTO is text if the bytes are text, and hex otherwise.

    JSON is indented; data that is not JSON, or is too large to be shown in full, is shown as AUTO.  None, which differs
    from an empty value, is returned as None.
    """
    if data is None:
        return None
    is_cut = len(data) > bytes_max
    if format_ == JSON and not is_cut:
        text = _as_json(data)
        if text is not None:
            return Shown(text=text, format=JSON, size_bytes=len(data), is_cut=False)
    part = data[:bytes_max]
    if format_ == HEX or (format_ != TEXT and not _is_text(part, is_cut=is_cut)):
        return Shown(text=_as_hex(part), format=HEX, size_bytes=len(data), is_cut=is_cut)
    text = part.decode(errors="replace")
    if is_cut:
        text = text.rstrip("\ufffd")  # the cut may have split a character
    return Shown(text=_visible(text), format=TEXT, size_bytes=len(data), is_cut=is_cut)


def _as_json(data: bytes) -> str | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return json.dumps(value, indent=2, ensure_ascii=False)


def _is_text(data: bytes, *, is_cut: bool) -> bool:
    """
    Return whether `data` is UTF-8, with no zero bytes and few control characters (colour codes in log lines use some).
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if not (is_cut and error.reason == "unexpected end of data"):  # the cut split a character
            return False
        text = data[: error.start].decode()
    controls = sum(ord(it) < 32 and it not in "\t\n\r" for it in text)
    return "\0" not in text and controls <= len(text) / 8


def _visible(text: str) -> str:
    """Return `text` with a symbol in place of each control character, which a page cannot show."""
    return "".join(chr(0x2400 + ord(it)) if ord(it) < 32 and it not in "\t\n\r" else it for it in text)


def _as_hex(data: bytes) -> str:
    """Return lines of sixteen bytes: position, hexadecimal bytes, and the printable ASCII characters."""
    lines = []
    for position in range(0, len(data), 16):
        part = data[position : position + 16]
        printable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{position:06x}  {part.hex(' ', 1):<47}  {printable}")
    return "\n".join(lines)
