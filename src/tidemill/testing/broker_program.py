"""The program that runs a broker of the fixtures: `tidemill broker`, with a wall clock that its parent moves forward.

The parent writes lines to stdin, each a number of milliseconds.  The clock moves forward by that much, and the broker
looks at once what has become due.  Then it prints one line of JSON: "wall_ms" is the wall clock, and "clocks_ms" has
those of the other brokers by their ids, as heartbeats have told them.  `tidemill broker` has no such clock, and reads
no stdin, so nothing can move the clock of a broker in production.

    python -m tidemill.testing.broker_program [--config FILE] [--set KEY=VALUE]… [--ahead-ms N]
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tidemill.app.listeners import SettingRefused
from tidemill.app.settings import settings_from
from tidemill.app.start import Ready, run
from tidemill.app.start_problem import StartProblem
from tidemill.runtime.os_clock import OsClock
from tidemill.testing.movable_clock import MovableClock

if TYPE_CHECKING:
    from tidemill.broker.broker import Broker

READ_BYTES: Final = 4_096  # of commands; each takes some 20 bytes


class Commands:
    """Executes the lines that arrive on a pipe."""

    def __init__(self, broker: "Broker", clock: MovableClock, pipe: int, answer: Callable[[str], None]) -> None:
        """`pipe` is a file descriptor.  `answer` is called with one line for each command."""
        self._broker = broker
        self._clock = clock
        self._pipe = pipe
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._begun = b""  # of a line whose end has not arrived
        self._loop.add_reader(pipe, self._read)

    def _read(self) -> None:
        data = os.read(self._pipe, READ_BYTES)
        if not data:
            self._loop.remove_reader(self._pipe)  # the parent has ended, or sends no more
            return
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._advance(int(line))

    def _advance(self, ms: int) -> None:
        self._clock.advance(ms)
        self._broker.tick()  # otherwise, what is due waits for the next tick, and so do heartbeats with the new time
        wall_ms, offsets = self._clock.wall_ms(), self._broker.cluster.clocks.offsets()
        clocks_ms = {voter.broker_id: wall_ms + off_ms for voter, off_ms in offsets.items()}
        self._answer(json.dumps({"wall_ms": wall_ms, "clocks_ms": clocks_ms}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--ahead-ms", type=int, default=0)
    arguments = parser.parse_args()
    clock = MovableClock(OsClock(), arguments.ahead_ms)

    def answer(line: str) -> None:
        print(line, flush=True)

    def opened(broker: "Broker") -> None:
        Commands(broker, clock, sys.stdin.fileno(), answer)

    def ready(addresses: Ready) -> None:
        answer(json.dumps({"event": "ready", **addresses._asdict()}))

    try:
        settings = settings_from(file=arguments.config, environment=os.environ, sets=arguments.set)
        run(settings, ready=ready, as_json=True, clock=clock, opened=opened)
    except (SettingRefused, StartProblem) as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
