"""Trims the logs in which records of a timer topic wait: when a log start has committed, and when its bytes may go.

    LOG_START is committed ─▶ the ids of timers are restored: the log start holds
                           ─▶ a checkpoint has it, and the state: the bytes are removed

A start of this broker begins with the state of the newest checkpoint, applies what follows again, and reads the ids of
what waits by that state from the log.  So bytes that only that state needs stay until a newer checkpoint is there.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidemill.shard.arrivals import timers_of
from tidemill.shard.partition import Partition
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.store import Store


class _Trim(NamedTuple):
    offset: int
    checkpoint: int  # the number of the checkpoint that must be there first


class WaitingTrims:
    """The trims of the logs of one shard, by the numbers of the logs."""

    def __init__(
        self, store: Store, log: ShardLog, partitions: Mapping[int, Partition], trim: Callable[[int, int], None]
    ) -> None:
        """`trim` removes the records of a log below an offset."""
        self._store = store
        self._log = log
        self._partitions = partitions
        self._trim = trim
        self._starts: dict[int, int] = {}  # committed log starts that do not hold yet
        self._trims: dict[int, _Trim] = {}

    def clear(self) -> None:
        """Forget everything: an install has replaced the logs."""
        self._starts.clear()
        self._trims.clear()

    def start(self, number: int) -> int:
        """Return the log start of a log, even if it does not hold yet."""
        return max(self._starts.get(number, 0), self._partitions[number].log.log_start)

    def committed(self, number: int, offset: int) -> None:
        """Apply a committed log start."""
        if offset > self.start(number):
            self._starts[number] = offset
            self.tick(number)

    def tick(self, number: int) -> None:
        """Let log starts hold, and remove bytes, as far as that is possible now.  Called a few times a second."""
        partition = self._partitions[number]
        if number in self._starts and timers_of(partition).is_restored:
            partition.log.log_start = self._starts.pop(number)
            self._log.changed = True
        trim = self._trims.get(number)
        if trim is not None and self._store.checkpoints.number >= trim.checkpoint:
            del self._trims[number]
            self._trim(number, trim.offset)
        if partition.log.trimmed < partition.log_start and number not in self._trims:
            self._trims[number] = _Trim(partition.log_start, self._store.await_checkpoint())
