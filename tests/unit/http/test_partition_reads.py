"""Reading a partition: what the values that are read take of the broker's memory."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.batches.builder import build_batch
from tidemill.http.v1.budgets import RESPONSE_BYTES_MAX, Budgets, Exhausted, Taken
from tidemill.http.v1.partition_reads import PartitionReader


class StoredReader(PartitionReader):
    """Reads one batch."""

    def __init__(self, batch: bytes) -> None:
        brokers: Any = SimpleNamespace(decoding=asyncio.Semaphore(1))
        super().__init__(brokers, SimpleNamespace(name="t"), 0)  # type: ignore[arg-type]
        self._batch = batch

    async def offset_at(self, timestamp: int) -> int:
        return 1

    async def _fetched(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(records=self._batch)


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
