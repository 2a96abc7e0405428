"""One decision of a coordinator in progress: its inputs, and the records and replies decided so far."""

from tidemill.coordinator.group.deadlines import Deadlines
from tidemill.coordinator.group.group_settings import GroupSettings
from tidemill.coordinator.result import Key, LogRecord, Result, Waiter
from tidemill.coordinator.timestamps import Timestamps
from tidemill.model.entropy import Entropy


class DecisionBuilder:
    __slots__ = ("deadlines", "entropy", "records", "replies", "settings", "timestamps")

    def __init__(self, settings: GroupSettings, entropy: Entropy, deadlines: Deadlines, timestamps: Timestamps) -> None:
        self.settings = settings
        self.entropy = entropy
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
