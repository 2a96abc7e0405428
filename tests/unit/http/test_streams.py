"""Streams of records: where they begin, and that they end."""

import asyncio
import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.http.v1.budgets import Exhausted, Taken
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.partition_reads import NothingReadable, ReadRecords
from tidemill.http.v1.streams import PARTITIONS_MAX, _parts, _positions_of, _Stream
from tidemill.model.topic import topic_id_from_text

TOPIC_ID = "nLBmFxTkSOOOLhqgBnUuBg"
TOPIC: Any = SimpleNamespace(name="t", partition_count=100, topic_id=topic_id_from_text(TOPIC_ID))


def test_an_id_has_no_more_partitions_than_a_stream() -> None:
    most = dict.fromkeys(range(PARTITIONS_MAX), 7)
    text = ",".join(f"{number}:{offset}" for number, offset in most.items())

    assert most == _positions_of(text, TOPIC)
    with pytest.raises(Refused, match=f"{PARTITIONS_MAX + 1} partitions"):
        _positions_of(f"{text},99:7", TOPIC)


def test_an_id_is_of_the_topic_that_it_names() -> None:
    """A later topic of the same name has other records at its offsets.  An id that a client makes may name none."""
    position = _Stream(None, TOPIC, {4: 9, 3: 7}, Taken()).position  # type: ignore[arg-type]

    assert f"3:7,4:9@{TOPIC_ID}" == position
    assert {3: 7, 4: 9} == _positions_of(position, TOPIC) == _positions_of("3:7,4:9", TOPIC)
    for other in ("AAAAAAAAAAAAAAAAAAAAAQ", TOPIC_ID[:-1], ""):
        with pytest.raises(Refused, match="begin anew") as refused:
            _positions_of(f"3:7,4:9@{other}", TOPIC)
        assert 410 == refused.value.answer.status


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


@pytest.mark.parametrize("is_sse", [True, False])
def test_a_stream_that_ends_at_a_batch_that_cannot_be_decoded_can_be_continued_behind_it(is_sse: bool) -> None:
    """A client that connects again with the last id does not meet the same batch."""

    async def read() -> list[bytes]:
        stream = _Stream(None, TOPIC, {}, Taken())  # type: ignore[arg-type]
        stream._positions = {3: 7, 4: 9}
        stream._follow = wait_for_ever  # type: ignore[method-assign]
        stream._pages.put_nowait((3, NothingReadable("no readable records", 12)))
        return [part async for part in _parts(stream, is_sse=is_sse)]

    async def wait_for_ever(number: int, offset: int) -> None:
        await asyncio.Event().wait()

    begin, end = (part.decode() for part in asyncio.run(read()))

    assert "3:7,4:9" in begin
    position = f"3:12,4:9@{TOPIC_ID}"
    assert (f"id: {position}\nevent: problem" if is_sse else f'{{"position": "{position}", "problem": {{') in end
    assert '"partition":3' in end.replace(": ", ":")


@pytest.mark.parametrize("kind", [Exhausted, NothingReadable])
def test_the_problem_that_ends_a_stream_keeps_nothing(kind: type[Exception]) -> None:
    """Its traceback refers to what was read last, which can be large and must not wait for the next collection."""

    async def read() -> weakref.ref[Exception]:
        stream = _Stream(None, TOPIC, {}, Taken())  # type: ignore[arg-type]
        problem = kind("nothing is left") if kind is Exhausted else NothingReadable("no readable records", 12)
        stream._pages.put_nowait(problem)
        known = weakref.ref(problem)
        del problem
        assert 2 == len([part async for part in _parts(stream, is_sse=True)])
        return known

    gc.disable()
    try:
        assert asyncio.run(read())() is None
    finally:
        gc.enable()
