"""The machine's loop: uvloop, and the signals that ask a process to stop."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import uvloop

T = TypeVar("T")

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run(main: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, T]], *, stop: Callable[[], None]) -> T:
    """Run `main` to its end on a loop of its own.

    `stop` is called on the loop for each SIGINT and SIGTERM and should lead `main` to return; what a second signal
    means is the caller's to say.  Only the main thread may call this.
    """
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            loop = runner.get_loop()
            for number in STOP_SIGNALS:
                loop.add_signal_handler(number, stop)
            return runner.run(main(loop))
    finally:
        for number, handler in before.items():  # a closed loop leaves its own, which do nothing
            signal.signal(number, handler)
