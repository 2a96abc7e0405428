"""Showing keys and values as text, JSON or hex."""

import tracemalloc
from typing import Any

import pytest

from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.console import record_reader
from tidemill.console.record_reader import (
    AUTO,
    HEADERS_MAX,
    HEX,
    JSON,
    SHOWN_ALONE_BYTES_MAX,
    SHOWN_BYTES_MAX,
    SHOWN_PAGE_CHARACTERS_MAX,
    TEXT,
    RecordPage,
    Shown,
    read_page,
    show,
)
from tidemill.model.partition import TopicPartition


@pytest.mark.parametrize(
    ("data", "asked", "format_", "text"),
    [
        (b"plain", AUTO, TEXT, "plain"),
        ("größe\t👋\n".encode(), AUTO, TEXT, "größe\t👋\n"),
        (b'{"a":1}', AUTO, TEXT, '{"a":1}'),
        (b"", AUTO, TEXT, ""),
        (b"\x1b[31merror\x1b[0m: no room", AUTO, TEXT, "␛[31merror␛[0m: no room"),
        (b"\x00\x01AB", AUTO, HEX, "000000  00 01 41 42                                      ..AB"),
        (b"\xff\xfe", AUTO, HEX, "000000  ff fe                                            .."),
        (b"\xff", TEXT, TEXT, "\ufffd"),
        (b"\x07", TEXT, TEXT, "␇"),
        ('{"ü":[1,"<b>"]}'.encode(), JSON, JSON, '{\n  "ü": [\n    1,\n    "<b>"\n  ]\n}'),
        (b"{broken", JSON, TEXT, "{broken"),
        (b"\xff", JSON, HEX, "000000  ff                                               ."),
        (b"[" * 100_000, JSON, TEXT, "[" * 100_000),
        (b"AB", HEX, HEX, "000000  41 42                                            AB"),
    ],
)
def test_bytes_are_shown_as_asked(data: bytes, asked: str, format_: str, text: str) -> None:
    """
    AUTO shows bytes as text if they are text, and as hex otherwise.  If JSON is requested for bytes that are not JSON,
    they are shown as with AUTO.  Control characters are made visible.
    """
    assert Shown(text=text, format=format_, size_bytes=len(data), is_cut=False) == show(data, asked, 1 << 20)


def test_no_value_differs_from_an_empty_one() -> None:
    """
    A null value is not shown as an empty one, because it makes the record a tombstone.
    """
    assert show(None, AUTO, 10) is None


@pytest.mark.parametrize(("format_", "text"), [(AUTO, "größe"), (JSON, "größe"), (TEXT, "größe")])
def test_a_large_value_is_cut(format_: str, text: str) -> None:
    """
    Only the beginning of a large value is shown, together with the full size, even if the cut falls within a character.
    """
    data = "größeü".encode()

    assert Shown(text=text, format=TEXT, size_bytes=9, is_cut=True) == show(data, format_, 8)


def test_a_large_number_of_digits_is_shown_as_text() -> None:
    """
    Python refuses to parse integers of more than 4,300 digits, but that must not make the page fail.
    """
    data = b"1" * 10_000

    shown = show(data, JSON, 1 << 20)

    assert shown is not None and (TEXT, data.decode()) == (shown.format, shown.text)


def test_json_that_grows_when_it_is_indented_is_shown_as_it_is() -> None:
    """
    Each element of deeply nested lists has a line of its own, with as many spaces as there are lists around it.
    """
    data = b"[" * 300 + b",".join([b"0"] * 1_000) + b"]" * 300

    shown = show(data, JSON, len(data))

    assert shown is not None and (TEXT, data.decode()) == (shown.format, shown.text)


class ClusterStub:
    def __init__(self, _: object) -> None: ...

    def refresh(self, _: object) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def page_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    def page_of(*runs: bytes, start: int = 0, end: int) -> RecordPage:
        class FetcherStub:
            def __init__(self, *_: object, **__: object) -> None: ...

            def batches(self, *_: object) -> Any:
                return iter(runs)

        monkeypatch.setattr(record_reader, "ClusterMetadata", ClusterStub)
        monkeypatch.setattr(record_reader, "RawFetcher", FetcherStub)
        settings = ConnectionSettings(bootstrap=())
        return read_page(settings, TopicPartition("t", 0), start, end, AUTO)

    return page_of


def test_a_page_has_the_records_between_its_offsets(page_of: Any) -> None:
    rows = [(None, b"%d" % at, (), at) for at in range(6)]
    runs = [bytes(build_batch(rows[:4])), bytes(build_batch(rows[4:], base_offset=4))]

    page = page_of(*runs, start=2, end=5)

    assert ([2, 3, 4], 5, False) == ([it.offset for it in page.rows], page.next_offset, page.is_cut)
    assert ["2", "3", "4"] == [it.value.text for it in page.rows]


def test_one_page_at_a_time_decodes_a_batch(page_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Eight threads build pages, and a batch may take 16 MiB when it is decompressed, and as much again in its records.
    """
    locked: list[bool] = []

    def read_records(*arguments: Any, **more: Any) -> Any:
        locked.append(record_reader._decoding.locked())
        return original(*arguments, **more)

    original = record_reader.read_records
    monkeypatch.setattr(record_reader, "read_records", read_records)
    page_of(bytes(build_batch([(None, b"x", (), 1)])), end=1)

    assert ([True], False) == (locked, record_reader._decoding.locked())


def test_countless_headers_are_not_decoded(page_of: Any) -> None:
    """
    A record is shown with its first headers, and the page says that there are more.
    """
    rows = [(None, b"x", [("n", b"v")] * count, 1) for count in (100_000, HEADERS_MAX, HEADERS_MAX + 1)]
    batch = bytes(build_batch(rows, codec=Codec.ZSTD))
    tracemalloc.start()

    page = page_of(batch, end=3)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(HEADERS_MAX, True), (HEADERS_MAX, False), (HEADERS_MAX, True)] == [
        (len(it.headers), it.has_more_headers) for it in page.rows
    ]
    assert peak < 3_000_000


def test_a_page_ends_when_it_shows_too_much(page_of: Any) -> None:
    """
    Headers of two hundred records are more than a browser should get.  The next page continues.
    """
    rows = [(None, b"x", [("n", bytes(SHOWN_BYTES_MAX))] * HEADERS_MAX, 1) for _ in range(20)]
    batch = bytes(build_batch(rows, codec=Codec.ZSTD))

    page = page_of(batch, end=20)

    shown = sum(it.characters for it in page.rows)
    assert (len(page.rows), True) == (page.next_offset, page.is_cut)
    assert SHOWN_PAGE_CHARACTERS_MAX < shown <= SHOWN_PAGE_CHARACTERS_MAX + page.rows[0].characters
    assert page.next_offset == page_of(batch, start=page.next_offset, end=20).rows[0].offset


@pytest.mark.parametrize(("count", "is_cut"), [(1, False), (2, True)])
def test_the_headers_of_a_record_alone_share_their_room(page_of: Any, count: int, is_cut: bool) -> None:
    headers = [("n", b"v" * SHOWN_ALONE_BYTES_MAX)] * count

    page = page_of(bytes(build_batch([(None, b"x", headers, 1)])), end=1)

    assert [is_cut] * count == [it.is_cut for _, it in page.rows[0].headers]


def test_a_batch_that_decompresses_to_too_much_is_refused(page_of: Any) -> None:
    batch = bytes(build_batch([(None, bytes(record_reader.BATCH_BYTES_MAX), (), 1)], codec=Codec.ZSTD))

    with pytest.raises(ValueError, match="decompress to more than"):
        page_of(batch, end=1)
