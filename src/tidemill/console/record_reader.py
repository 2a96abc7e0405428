"""Reads a page of a partition's records, and renders keys and values as text, JSON or hexadecimal bytes.

The results are plain text of a bounded size; the templates escape it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

from tidemill.batches.batch import Buffer, spans
from tidemill.batches.records import Record, read_records
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.client.raw_fetcher import RawFetcher
from tidemill.model.partition import TopicPartition

BYTES_READ_MAX: Final = 16 << 20  # per page: enough for fifty records of typical size
BATCH_BYTES_MAX: Final = 16 << 20  # per batch, after decompression: far more than producers gather in one
SHOWN_BYTES_MAX: Final = 2 << 10  # per key, value or header, if the page shows several records
SHOWN_ALONE_BYTES_MAX: Final = 128 << 10  # per key or value, or of all headers, if the page shows a single record
SHOWN_PAGE_CHARACTERS_MAX: Final = 2 << 20  # per page; hex takes five times as many characters as there are bytes
INDENTED_FACTOR_MAX: Final = 8  # how much longer JSON may become when it is indented: nested lists grow a hundredfold
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
    has_more_headers: bool  # than HEADERS_MAX

    @property
    def characters(self) -> int:
        """The number of characters that are shown of the record."""
        parts = (self.key, self.value, *(part for _, part in self.headers))
        return sum(len(it.text) for it in parts if it is not None) + sum(len(name) for name, _ in self.headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    rows: list[RecordRow]  # in ascending order of offsets
    next_offset: int  # the first offset that was not read
    is_cut: bool  # whether BYTES_READ_MAX or SHOWN_PAGE_CHARACTERS_MAX ended the page


_decoding = Lock()  # one page at a time decodes a batch, which may be large when it is decompressed


def read_page(
    settings: ConnectionSettings, partition: TopicPartition, start_offset: int, end_offset: int, format_: str
) -> RecordPage:
    """Return the records of [start_offset, end_offset).  Raise ClientError, or ValueError for a malformed batch."""
    is_alone = end_offset - start_offset == 1
    rows: list[RecordRow] = []
    read, shown, next_offset = 0, 0, start_offset
    cluster = ClusterMetadata(settings)
    try:
        cluster.refresh({partition.topic})
        fetcher = RawFetcher(cluster, deadline_ms=settings.api_timeout_ms)
        for run in fetcher.batches(partition, start_offset, end_offset):
            for span in spans(run):
                for row in _rows(run, span.position, next_offset, end_offset, format_, is_alone=is_alone):
                    rows.append(row)
                    shown += row.characters
                    next_offset = row.offset + 1
                    if shown > SHOWN_PAGE_CHARACTERS_MAX or next_offset >= end_offset:
                        return RecordPage(rows=rows, next_offset=next_offset, is_cut=next_offset < end_offset)
                next_offset = span.header.end_offset
            read += len(run)
            if read > BYTES_READ_MAX:
                return RecordPage(rows=rows, next_offset=min(next_offset, end_offset), is_cut=next_offset < end_offset)
    finally:
        cluster.close()
    return RecordPage(rows=rows, next_offset=end_offset, is_cut=False)


def _rows(run: Buffer, position: int, first: int, end: int, format_: str, *, is_alone: bool) -> list[RecordRow]:
    """Return the records of [first, end) in a batch, of each only a few headers: two bytes can be one."""
    bytes_max = SHOWN_ALONE_BYTES_MAX if is_alone else SHOWN_BYTES_MAX
    with _decoding:
        records = read_records(
            run,
            position,
            BATCH_BYTES_MAX,
            first=first,
            last=end - 1,
            limit=end - first,
            headers_each=HEADERS_MAX + 1,
        )
        return [_row(record, format_, bytes_max) for record in records]


def _row(record: Record, format_: str, bytes_max: int) -> RecordRow:
    headers = record.headers[:HEADERS_MAX]
    header_bytes_max = max(bytes_max // max(len(headers), 1), SHOWN_BYTES_MAX)
    return RecordRow(
        offset=record.offset,
        timestamp_ms=None if record.timestamp < 0 else record.timestamp,
        key=show(record.key, format_, bytes_max),
        value=show(record.value, format_, bytes_max),
        headers=[(name[:200], show(value, format_, header_bytes_max)) for name, value in headers],
        has_more_headers=len(record.headers) > HEADERS_MAX,
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
        text = _as_json(data, INDENTED_FACTOR_MAX * bytes_max)
        if text is not None:
            return Shown(text=text, format=JSON, size_bytes=len(data), is_cut=False)
    part = data[:bytes_max]
    if format_ == HEX or (format_ != TEXT and not _is_text(part, is_cut=is_cut)):
        return Shown(text=_as_hex(part), format=HEX, size_bytes=len(data), is_cut=is_cut)
    text = part.decode(errors="replace")
    if is_cut:
        text = text.rstrip("\ufffd")  # the cut may have split a character
    return Shown(text=_visible(text), format=TEXT, size_bytes=len(data), is_cut=is_cut)


def _as_json(data: bytes, characters_max: int) -> str | None:
    """Return JSON with indentation; None if it is none, or would have more characters than allowed."""
    parts: list[str] = []
    size = 0
    try:
        for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(data)):
            parts.append(part)
            size += len(part)
            if size > characters_max:
                return None
    except (ValueError, RecursionError):
        return None
    return "".join(parts)


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
