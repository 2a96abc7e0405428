"""Reads a partition of a timer topic, and checks the records that become visible."""

from tidemill.batches.records import Record
from tidemill.simulation.clients.client import Client
from tidemill.simulation.clients.reader import Reader
from tidemill.simulation.clients.timer_history import TimerHistory


class TimerReader(Reader):
    def __init__(self, client: Client, history: TimerHistory, topic: str, number: int) -> None:
        super().__init__(client, history, topic, number)
        self._timers = history

    def _note(self, record: Record) -> None:
        self._timers.became_visible(self._number, record)
