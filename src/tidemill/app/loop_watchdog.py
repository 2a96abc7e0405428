"""The watchdog of the event loop: whoever holds the loop holds every client, so a long stall is told, with its stack.

A thread asks the loop for a sign of life, waits for it, and asks again.  If it waits too long it looks at what the loop
is doing just then; the loop itself tells of the stall when it is over.  A native call that keeps the GIL keeps the
thread from looking too: then the stack is that of the moment after.
"""

import asyncio
import sys
import threading
import time
import traceback
from typing import Final

from tidemill.telemetry.event_log import EventLog
from tidemill.telemetry.metrics import Metrics

BEAT_S: Final = 0.1  # between two signs: the loop is woken ten times a second
STALL_S: Final = 0.25  # a stall that clients see, and none that a busy machine explains
STACK_CHARACTERS_MAX: Final = 2_400  # of the innermost calls; an event's line holds 4,096


class LoopWatchdog:
    """Started on the loop that it watches."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metrics: Metrics, events: EventLog) -> None:
        self._loop = loop
        self._metrics = metrics
        self._events = events
        self._watched = threading.get_ident()
        self._stopping = threading.Event()
        self._alive = threading.Event()
        self._stack = ""
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Called on the loop."""
        self._stopping.set()
        self._alive.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(BEAT_S):
            self._alive.clear()
            if self._stopping.is_set():
                return  # what was cleared may have been the call to end: the loop waits for us, and gives no other sign
            self._stack = ""
            self._loop.call_soon_threadsafe(self._beat, time.monotonic())
            if not self._alive.wait(STALL_S):
                frame = sys._current_frames().get(self._watched)
                self._stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
                del frame  # it would keep alive what the loop was working on
                self._alive.wait()

    def _beat(self, asked_at: float) -> None:
        lag = time.monotonic() - asked_at
        stack = self._stack
        self._alive.set()
        if lag > self._metrics.loop_lag_seconds_max:
            self._metrics.loop_lag_seconds_max = lag
        if lag >= STALL_S:
            self._metrics.loop_stalls += 1
            self._events.warning(
                "event loop stalled", milliseconds=round(lag * 1000), stack=stack.rstrip()[-STACK_CHARACTERS_MAX:]
            )
