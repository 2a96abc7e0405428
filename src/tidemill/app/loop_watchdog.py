"""A watchdog for the event loop: logs every long stall, which delays all clients, with the loop's stack.

A thread schedules a callback on the loop, waits until it is called, and repeats.  If the wait is too long, the thread
captures the loop's current stack, and the loop logs the stall once it is over.  A native call that holds the GIL blocks
the thread as well; the captured stack is then the one just after that call.
"""

import asyncio
import sys
import threading
import time
import traceback
from typing import Final

from tidemill.telemetry.event_log import EventLog
from tidemill.telemetry.metrics import Metrics

CALLBACK_INTERVAL_S: Final = 0.1  # between callbacks, each of which wakes the loop
STALL_S: Final = 0.25  # clients notice a stall of this length, and a busy machine alone does not cause it
STACK_CHARACTERS_MAX: Final = 2_400  # for the innermost calls; an event's line holds 4,096 characters


class LoopWatchdog:
    """Watches an event loop.  Must be created on the thread of that loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metrics: Metrics, events: EventLog) -> None:
        self._loop = loop
        self._metrics = metrics
        self._events = events
        self._loop_thread_id = threading.get_ident()
        self._stopping = threading.Event()
        self._responded = threading.Event()
        self._stack = ""
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the watchdog's thread.  Must be called on the loop's thread."""
        self._stopping.set()
        self._responded.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(CALLBACK_INTERVAL_S):
            self._responded.clear()
            if self._stopping.is_set():
                return  # `stop` may have set `_responded` just before `clear`; the loop then waits in `join`.
            self._stack = ""
            self._loop.call_soon_threadsafe(self._callback, time.monotonic())
            if not self._responded.wait(STALL_S):
                frame = sys._current_frames().get(self._loop_thread_id)
                self._stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
                del frame  # the frame would keep the loop's objects alive
                self._responded.wait()

    def _callback(self, asked_at: float) -> None:
        lag = time.monotonic() - asked_at
        stack = self._stack
        self._responded.set()
        if lag > self._metrics.loop_lag_seconds_max:
            self._metrics.loop_lag_seconds_max = lag
        if lag >= STALL_S:
            self._metrics.loop_stalls += 1
            self._events.warning(
                "event loop stalled", milliseconds=round(lag * 1000), stack=stack.rstrip()[-STACK_CHARACTERS_MAX:]
            )
