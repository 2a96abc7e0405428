"""A share group in memory, with the requests that `ShareBatches` sends."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidemill.client.failures import ClientError
from tidemill.columnar.share_batch import Acquired, Holder, Progress
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId

LOCK_MS = 30_000


@dataclass
class Log:
    """A partition: the delivery count of each offset, who holds it, and what is finished."""

    counts: list[int] = field(default_factory=list)
    held: dict[int, str] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)

    def append(self, count: int) -> None:
        self.counts += [0] * count

    def available(self) -> list[int]:
        return [n for n in range(len(self.counts)) if n not in self.held and n not in self.finished]


class ShareGroupModel:
    """`locks_max` is the limit on the locks of a partition, `stretch` on the offsets that one acquisition sees."""

    def __init__(self, *, locks_max: int = 1_000, stretch: int = 1_000) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.locks_max = locks_max
        self.stretch = stretch
        self.requests: list[str] = []
        self.is_down = False
        self.withheld_ms: list[int] = []  # by each of the next acquisitions, which get nothing

    def partition(self, number: int, count: int) -> Log:
        log = self.logs[TopicPartition("jobs", number)] = Log()
        log.append(count)
        return log

    def lose_locks(self) -> None:
        """Forget who holds what, as a change of leaders does."""
        for log in self.logs.values():
            log.held.clear()

    # The requests of `share_batches.AcquiringLocks`.

    def open(self, partitions: Iterable[TopicPartition]) -> None:
        self._asked("open")

    def progress(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Progress]:
        self._asked("progress")
        return {it: Progress(True, len(self.logs[it].available()), len(self.logs[it].counts)) for it in partitions}

    def acquire(self, holder: Holder, records_max: int) -> Acquired:
        self._asked("acquire")
        if self.withheld_ms:
            return Acquired([], LOCK_MS, self.withheld_ms.pop(0))
        log = self.logs[holder.partition]
        if not self._held(holder):
            available = log.available()
            near = [n for n in available if n < available[0] + self.stretch]
            for offset in near[: min(records_max, self.locks_max - len(log.held))]:
                log.held[offset] = holder.member
                log.counts[offset] += 1
        return self._held_ranges(holder)

    def held(self, holder: Holder) -> Acquired:
        self._asked("held")
        return self._held_ranges(holder)

    def renew(self, holder: Holder) -> int:
        self._asked("renew")
        return len(self._held(holder))

    def accept(self, holder: Holder) -> int:
        self._asked("accept")
        held = self._held(holder)
        self.logs[holder.partition].finished.update(held)
        return self._let_go(holder, held)

    def release(self, holder: Holder) -> int:
        self._asked("release")
        return self._let_go(holder, self._held(holder))

    def close(self) -> None:
        pass

    # The subscription of `share_batches.Partitions`.

    def partitions(self, *, is_missing_allowed: bool = False) -> list[TopicPartition]:
        return sorted(self.logs)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, TopicId | None]:
        return dict.fromkeys(topics)

    def _asked(self, request: str) -> None:
        if self.is_down:
            raise ClientError("the broker is down")
        self.requests.append(request)

    def _held(self, holder: Holder) -> list[int]:
        return [offset for offset, member in self.logs[holder.partition].held.items() if member == holder.member]

    def _held_ranges(self, holder: Holder) -> Acquired:
        counts = self.logs[holder.partition].counts
        return Acquired([(offset, offset + 1, counts[offset]) for offset in sorted(self._held(holder))], LOCK_MS)

    def _let_go(self, holder: Holder, offsets: list[int]) -> int:
        for offset in offsets:
            del self.logs[holder.partition].held[offset]
        return len(offsets)
