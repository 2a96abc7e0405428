"""Logs and counts the dead letters that wait, are dropped or are lost."""

from typing import Final

from tidemill.broker.shares.led_share import LedShare
from tidemill.telemetry.event_log import EventLog
from tidemill.telemetry.metrics import Metrics

WARNED_MAX: Final = 1_000  # problems that are remembered, so that each is logged once


class LetterEvents:
    def __init__(self, events: EventLog, metrics: Metrics) -> None:
        self._events = events
        self._metrics = metrics
        self._warned: dict[tuple[str, str], None] = {}  # (group, problem) that were logged

    def waits(self, led: LedShare, problem: str) -> None:
        """Show why dead letters of a share wait.  The problem of a group is logged once, until it is solved."""
        led.letter_problem = problem
        key = (led.key.group, problem)
        if key in self._warned:
            return
        if len(self._warned) >= WARNED_MAX:
            self._warned.clear()
        self._warned[key] = None
        self._warn("dead letters wait", led, problem)

    def solved(self, led: LedShare) -> None:
        if led.letter_problem is not None:
            self._warned.pop((led.key.group, led.letter_problem), None)
            led.letter_problem = None

    def dropped(self, led: LedShare, count: int, why: str) -> None:
        if count:
            self._metrics.letters_dropped += count
            self._warn("dead letters dropped", led, why, count=count)

    def lost(self, led: LedShare, count: int) -> None:
        """Count dead records that cannot be sent back, because retention has removed them."""
        self._metrics.letters_lost += count
        self._warn("dead letters lost", led, "retention has removed the records", count=count)

    def _warn(self, event: str, led: LedShare, problem: str, **fields: int) -> None:
        topic, partition = led.partition.topic, led.key.partition
        self._events.warning(event, group=led.key.group, topic=topic, partition=partition, **fields, problem=problem)
