"""What decoded bodies take together is bounded: those that find no memory wait, and are not decoded meanwhile."""

import asyncio

from tidemill.http.v1.decoded_bodies import BYTES_MAX, FREE_BYTES, ITEM_MEMORY, DecodedBodies, memory_of

LARGE = b"{" * (BYTES_MAX // (ITEM_MEMORY + 1) // 2)  # two of them take nearly all
SMALL = b'{"consumer": "c"}'


class Crowd:
    """Requests that each hold their body until the test lets them go."""

    def __init__(self, bodies: DecodedBodies) -> None:
        self._bodies = bodies
        self.decoded: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    def come(self, name: str, data: bytes) -> "asyncio.Task[None]":
        self.ends[name] = asyncio.Event()
        return asyncio.create_task(self._serve(name, data))

    async def _serve(self, name: str, data: bytes) -> None:
        async with self._bodies.room_for(data):
            self.decoded.append(name)
            await self.ends[name].wait()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_bodies_wait_for_their_memory_in_order() -> None:
    """The largest one waits until it is alone, and a smaller one that came later does not overtake it."""

    async def run() -> None:
        bodies = DecodedBodies()
        crowd = Crowd(bodies)
        tasks = [crowd.come(*it) for it in (("a", LARGE), ("b", LARGE), ("all", LARGE * 9), ("c", LARGE))]
        await turns()
        assert ["a", "b"] == crowd.decoded
        crowd.ends["a"].set()
        await turns()
        assert ["a", "b"] == crowd.decoded
        crowd.ends["b"].set()
        await turns()
        assert (["a", "b", "all"], BYTES_MAX) == (crowd.decoded, bodies.bytes)
        crowd.ends["all"].set()
        crowd.ends["c"].set()
        await asyncio.gather(*tasks)
        assert ("c", 0) == (crowd.decoded[-1], bodies.bytes)

    asyncio.run(run())


def test_bodies_that_take_little_do_not_wait() -> None:
    """Those of acknowledgements and of receives, which may wait long for messages."""

    async def run() -> list[str]:
        crowd = Crowd(DecodedBodies())
        tasks = [crowd.come(name, data) for name, data in (("large", LARGE * 9), ("small", SMALL))]
        await turns()
        for end in crowd.ends.values():
            end.set()
        await asyncio.gather(*tasks)
        return crowd.decoded

    assert memory_of(SMALL) < FREE_BYTES
    assert ["large", "small"] == asyncio.run(run())


def test_a_client_that_leaves_gives_its_turn_to_the_next() -> None:
    """Whether it still waits, or has been granted the memory in the same turn."""

    async def run() -> None:
        bodies = DecodedBodies()
        crowd = Crowd(bodies)
        first, large, small, last = (
            crowd.come(*it) for it in (("first", LARGE), ("large", LARGE * 9), ("small", LARGE), ("last", LARGE))
        )
        await turns()
        large.cancel()
        await turns()
        assert ["first", "small"] == crowd.decoded
        crowd.ends["first"].set()
        first_and_last = asyncio.gather(first, return_exceptions=True)
        await asyncio.sleep(0)
        last.cancel()
        await turns()
        crowd.ends["small"].set()
        await first_and_last
        await small
        assert 0 == bodies.bytes

    asyncio.run(run())
