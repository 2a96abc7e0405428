"""A stall of the event loop is logged with the loop's stack."""

import asyncio
import json
import threading
import time

import uvloop

from tidemill.app.loop_watchdog import STALL_S, LoopWatchdog
from tidemill.telemetry.event_log import EventLog
from tidemill.telemetry.metrics import Metrics


def hold_the_loop(seconds: float) -> None:
    time.sleep(seconds)


def watched(seconds: float) -> tuple[list[dict[str, object]], Metrics]:
    """Block an event loop for `seconds`, and return the logged events and the metrics."""
    lines: list[str] = []
    metrics = Metrics()

    async def main() -> None:
        events = EventLog(lines.append, lambda: 0, as_json=True)
        watchdog = LoopWatchdog(asyncio.get_running_loop(), metrics, events)
        await asyncio.sleep(0.15)
        hold_the_loop(seconds)
        await asyncio.sleep(0.05)
        watchdog.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    return [json.loads(line) for line in lines], metrics


def test_a_stall_is_one_warning_with_its_stack() -> None:
    """
    A stall causes a single warning, whose stack shows the cause.  The metrics count the stall and record its duration.
    """
    lines, metrics = watched(0.6)

    assert [("warning", "event loop stalled")] == [(line["level"], line["event"]) for line in lines]
    assert "hold_the_loop" in str(lines[0]["stack"])
    assert metrics.loop_stalls == 1 and metrics.loop_lag_seconds_max > STALL_S


def test_stop_ends_the_thread_between_two_callbacks() -> None:
    """
    The watchdog's thread ends even while it waits for a callback: `stop` blocks the loop, so the callback never runs.
    """
    loop = uvloop.new_event_loop()
    watchdog = LoopWatchdog(loop, Metrics(), EventLog(lambda _: None, lambda: 0, as_json=True))

    class ClearedLate(threading.Event):
        def clear(self) -> None:
            watchdog._stopping.set()  # the first step of `stop`, at the worst moment
            self.set()
            super().clear()

    watchdog._responded = ClearedLate()
    watchdog._thread.join(5)

    has_ended = not watchdog._thread.is_alive()
    watchdog._responded.set()
    watchdog.stop()
    loop.close()
    assert has_ended


def test_a_short_hold_is_measured_and_not_logged() -> None:
    """
    A callback that holds the loop for less than `STALL_S` only updates the metrics.  On a busy machine, it may hold the
    loop for longer and is then logged.
    """
    lines, metrics = watched(0.12)

    assert 0 < metrics.loop_lag_seconds_max
    assert (metrics.loop_lag_seconds_max >= STALL_S) == bool(lines)
    assert len(lines) == metrics.loop_stalls
