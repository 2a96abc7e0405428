"""Stops a worker's program gracefully: SIGINT and SIGTERM stop it, and a second one ends it at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at the first signal.  In a thread that is not the main one, signals are left alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def received(_number: int, _frame: Any) -> None:
        restore()
        stop()

    for number in before:
        signal.signal(number, received)
    try:
        yield
    finally:
        restore()
