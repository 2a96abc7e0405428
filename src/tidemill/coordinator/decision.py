"""One decision of a coordinator in progress: the time, and the records, replies and deadlines decided so far."""

from tidemill.coordinator.deadlines import Deadlines
from tidemill.coordinator.result import Key, LogRecord, Result, Waiter
from tidemill.coordinator.timestamps import Timestamps


class Decision:
    __slots__ = ("deadlines", "records", "replies", "timestamps")

    def __init__(self, deadlines: Deadlines, timestamps: Timestamps) -> None:
        self.deadlines = deadlines
        self.timestamps = timestamps
        self.records: list[LogRecord] = []
        self.replies: list[tuple[Waiter, object]] = []

    def reply(self, waiter: Waiter, response: object) -> None:
        self.replies.append((waiter, response))

    def wake_after(self, key: Key, delay_ms: int) -> None:
        self.deadlines.set(key, self.timestamps.now_ms + delay_ms)

    def result(self) -> Result[LogRecord]:
        return Result(tuple(self.records), tuple(self.replies), self.deadlines.take_changes())
