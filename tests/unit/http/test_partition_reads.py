"""Reading a partition: what the values that are read take of the broker's memory."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.batches.builder import build_batch
from tidemill.batches.records import OPENED_HEADERS_MAX
from tidemill.http.v1.budgets import RESPONSE_BYTES_MAX, Budgets, Exhausted, Taken
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.partition_reads import NothingReadable, PartitionReader


class StoredReader(PartitionReader):
    """Reads one batch."""

    def __init__(self, batch: bytes) -> None:
        brokers: Any = SimpleNamespace(decoding=asyncio.Semaphore(1))
        super().__init__(brokers, SimpleNamespace(name="t"), 0)  # type: ignore[arg-type]
        self._batch = batch

    async def offset_at(self, timestamp: int) -> int:
        return 1

    async def _fetched(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(records=self._batch, log_start_offset=0, high_watermark=9)


def test_a_value_takes_memory_until_it_is_sent() -> None:
    """
    It may be large although its batch is small; while others have all memory, it is refused.
    """

    async def read(budgets: Budgets) -> int:
        with Taken(budgets) as taken:
            record = await StoredReader(build_batch([(None, b"value", (), 0)])).record_at(0, taken)
            assert record is not None and b"value" == record.value
            return budgets.response_bytes

    assert 5 == asyncio.run(read(Budgets()))
    with pytest.raises(Exhausted):
        asyncio.run(read(Budgets(response_bytes=RESPONSE_BYTES_MAX)))


def _with_headers(*counts: int) -> StoredReader:
    return StoredReader(build_batch([(None, b"", [("", None)] * count, 0) for count in counts]))


def test_a_page_ends_before_it_has_too_many_headers() -> None:
    """
    An empty header takes two bytes of a batch, and a hundred of memory.
    """

    async def page(offset: int) -> tuple[list[int], int]:
        read = await _with_headers(20_000, 2_000, 20_000, 20_000).read(offset, 100, 0, Taken())
        return [it.offset for it in read.records], read.next_offset

    assert ([0, 1], 2) == asyncio.run(page(0)), "4 MiB, at 128 bytes for a header"
    assert ([2], 3) == asyncio.run(page(2))
    assert ([3], 4) == asyncio.run(page(3))


def test_a_record_with_countless_headers_is_not_decoded() -> None:
    """
    Its batch may be small, and would take gigabytes of memory.  The read continues behind it.
    """
    with pytest.raises(NothingReadable, match=f"it has {OPENED_HEADERS_MAX + 1} headers") as refused:
        asyncio.run(_with_headers(OPENED_HEADERS_MAX + 1).read(0, 100, 0, Taken()))
    assert 1 == refused.value.next_offset

    with pytest.raises(Refused, match=f"it has {OPENED_HEADERS_MAX + 1} headers"):
        asyncio.run(_with_headers(OPENED_HEADERS_MAX + 1).record_at(0, Taken()))


def test_a_reader_of_a_topic_that_is_deleted_is_told_so_at_once() -> None:
    """It may wait for records; otherwise, a stream would be told to try again, and continue in a new topic."""

    async def read() -> None:
        brokers: Any = SimpleNamespace(place=lambda *_: None, image=SimpleNamespace(topic_by_id=lambda _: None))
        topic: Any = SimpleNamespace(name="t", topic_id=b"1")
        async with asyncio.timeout(5):
            await PartitionReader(brokers, topic, 0).read(7, 100, 30_000, Taken())

    with pytest.raises(Refused, match="topic t was deleted") as refused:
        asyncio.run(read())
    assert 404 == refused.value.answer.status
