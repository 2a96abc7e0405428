"""A broker of the fixtures executes the commands of its parent."""

import asyncio
import json
import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from tests.unit.testing.test_movable_clock import StoppedClock
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.testing.broker_program import Commands
from tidemill.testing.movable_clock import MovableClock


class Ticked:
    """Notes the time of each tick; hears one other broker, whose clock is 5 ms behind."""

    def __init__(self, clock: MovableClock) -> None:
        self._clock = clock
        self.ticks: list[int] = []
        self.cluster = SimpleNamespace(clocks=self)

    def tick(self) -> None:
        self.ticks.append(self._clock.wall_ms())

    def offsets(self) -> Mapping[Any, int]:
        return {ReplicaKey(BrokerId(2), bytes(16)): -5}


def executed(*written: bytes) -> tuple[list[int], list[Any], bool]:
    """Return the times of the ticks, the answers, and whether the pipe is still read after the parent has closed it."""
    answers: list[str] = []
    clock = MovableClock(StoppedClock())
    broker: Any = Ticked(clock)

    async def run() -> bool:
        reader, writer = os.pipe()
        Commands(broker, clock, reader, answers.append)
        for part in written:
            os.write(writer, part)
            await asyncio.sleep(0.01)
        os.close(writer)
        await asyncio.sleep(0.01)
        is_read = asyncio.get_running_loop().remove_reader(reader)
        os.close(reader)
        return is_read

    is_read = asyncio.run(run())
    return broker.ticks, [json.loads(answer) for answer in answers], is_read


def test_the_broker_looks_at_once_what_is_due() -> None:
    """
    A command moves the clock first and then has the broker tick.  The answer has all clocks, by the new time.
    """
    ticks, answers, _ = executed(b"100\n", b"0\n")

    assert [1_100, 1_100] == ticks
    assert [{"wall_ms": 1_100, "clocks_ms": {"2": 1_095}}] * 2 == answers


def test_a_command_may_arrive_in_parts() -> None:
    ticks, _, _ = executed(b"10", b"0\n7\n")

    assert [1_100, 1_107] == ticks


def test_a_parent_that_has_ended_is_not_read_any_more() -> None:
    """
    The end of a pipe is always readable: without this rule, the broker would be busy for ever.
    """
    *_, is_read = executed(b"1\n")

    assert not is_read
