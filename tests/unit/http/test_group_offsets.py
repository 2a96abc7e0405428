"""The offsets of a group."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.http.v1 import group_offsets
from tidemill.http.v1.group_offsets import TOPICS_AT_ONCE, Position

TOPICS = 3 * TOPICS_AT_ONCE


def test_the_leaders_of_few_topics_are_asked_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question takes a connection, and a group may read 10,000 topics."""
    asking, most = 0, 0

    async def describe_group(*_: Any) -> Any:
        return SimpleNamespace(name="g", type="Classic")

    async def positions_of(*_: Any) -> Any:
        return {f"t{number}": {0: Position(7, None)} for number in range(TOPICS)}

    async def offsets_at(*_: Any) -> dict[int, int]:
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await asyncio.sleep(0)
        asking -= 1
        return {0: 9}

    for it in (describe_group, positions_of, offsets_at):
        monkeypatch.setattr(group_offsets, it.__name__, it)
    image = SimpleNamespace(topic=lambda name: SimpleNamespace(name=name, partition_count=1))
    call: Any = SimpleNamespace(
        brokers=SimpleNamespace(image=image), query=SimpleNamespace(topic=None), names={"group": "g"}
    )

    found = asyncio.run(group_offsets.show(call))

    assert TOPICS_AT_ONCE == most
    assert [2] * TOPICS == [it.lag for it in found.offsets]
