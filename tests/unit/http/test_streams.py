"""Streams of records: where they begin, and that they end."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.http.v1.budgets import Taken
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.partition_reads import ReadRecords
from tidemill.http.v1.streams import PARTITIONS_MAX, _positions_of, _Stream

TOPIC: Any = SimpleNamespace(name="t", partition_count=100)


def test_an_id_has_no_more_partitions_than_a_stream() -> None:
    most = dict.fromkeys(range(PARTITIONS_MAX), 7)
    text = ",".join(f"{number}:{offset}" for number, offset in most.items())

    assert most == _positions_of(text, TOPIC)
    with pytest.raises(Refused, match=f"{PARTITIONS_MAX + 1} partitions"):
        _positions_of(f"{text},99:7", TOPIC)


@pytest.mark.parametrize("turns", range(5))
def test_a_stream_ends_when_its_client_leaves_just_as_a_page_arrives(turns: int) -> None:
    async def read(stream: _Stream) -> None:
        async for _ in stream.events():
            pass

    async def run() -> None:
        stream = _Stream(None, TOPIC, {}, Taken())  # type: ignore[arg-type]
        reading = asyncio.create_task(read(stream))
        await asyncio.sleep(0.01)
        stream._pages.put_nowait((0, ReadRecords([], 1, 0, 1)))
        for _ in range(turns):
            await asyncio.sleep(0)
        reading.cancel()
        done, _ = await asyncio.wait({reading}, timeout=1)
        assert {reading} == done
        assert reading.cancelled()

    asyncio.run(run())
