"""The event loop (uvloop), and the signals that ask the process to stop."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import uvloop

T = TypeVar("T")

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run(main: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, T]], *, stop: Callable[[], None]) -> T:
    """Run the coroutine from `main` to completion on a new event loop, and return its result.

    `stop` is called on the loop for each SIGINT and SIGTERM and should make `main` return; the caller decides what a
    second signal means.  Must be called on the main thread.
    """
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            loop = runner.get_loop()
            for number in STOP_SIGNALS:
                loop.add_signal_handler(number, stop)
            return runner.run(main(loop))
    finally:
        for number, handler in before.items():  # Restore the handlers: a closed loop leaves some that do nothing.
            signal.signal(number, handler)
