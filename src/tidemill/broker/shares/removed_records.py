"""Warns about records that retention or DeleteRecords removed before share groups had finished them.

The number of these records is durable (`Share.expired_unread`).  Only the leader warns, about each share at most once
an hour: a warning counts what was removed since the one before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidemill.broker.machine import Machine
from tidemill.broker.shares.share_openings import share_machine
from tidemill.model.dead_letters import is_redrive
from tidemill.shard.partition import Partition
from tidemill.shard.shard import Shard
from tidemill.share.share import Removed

FIX: Final = "let the consumers of the group keep up, or raise retention.ms or retention.bytes of the topic"
WARN_EVERY_MS: Final = 3_600_000


@dataclass(slots=True)
class _Unreported:
    """What a share has lost since the last warning."""

    partition: Partition
    group: str
    records: int = 0
    letters: int = 0
    warn_at: int = 0  # in ms of the monotonic clock

    @property
    def is_empty(self) -> bool:
        return not (self.records or self.letters)


class RemovedRecords:
    def __init__(self, machine: Machine, removed: Callable[[Partition, str, Removed], None]) -> None:
        """`removed` is called with a partition, a group that has lost records, and what it has lost."""
        self._events = machine.events
        self._clock = machine.clock
        self._removed = removed
        self._unreported: dict[tuple[Partition, str], _Unreported] = {}  # of the shares that have lost records

    def watch(self, shard: Shard) -> None:
        """Warn about the records of a shard, while this broker leads it."""
        share_machine(shard.log).removed = partial(self._lost, shard)

    def stopped(self, shard: Shard) -> None:
        """Warn about what this broker has not reported, because it no longer leads the shard."""
        for key in [key for key in self._unreported if key[0].shard is shard]:
            lost = self._unreported.pop(key)
            if not lost.is_empty:
                self._warn(lost)

    def tick(self) -> None:
        """Warn about what was removed in the hour after a warning.  Called regularly."""
        now_ms = self._clock.monotonic_ms()
        for key, lost in [*self._unreported.items()]:
            if lost.warn_at > now_ms:
                continue
            if lost.is_empty:
                del self._unreported[key]
            else:
                self._warn(lost)

    def _lost(self, shard: Shard, number: int, by_group: Mapping[str, Removed]) -> None:
        if not shard.is_serving:
            return
        partition = shard.partitions[number]
        for group, lost in by_group.items():
            # The share of a redrive counts letters that were not sent back as unread: retention may remove these.
            self._report(partition, group, 0 if is_redrive(group) else lost.unread, lost.letters)
            self._removed(partition, group, lost)

    def _report(self, partition: Partition, group: str, records: int, letters: int) -> None:
        if not (records or letters):
            return
        key = partition, group
        lost = self._unreported.setdefault(key, _Unreported(partition, group))
        lost.records += records
        lost.letters += letters
        if self._clock.monotonic_ms() >= lost.warn_at:
            self._warn(lost)

    def _warn(self, lost: _Unreported) -> None:
        self._events.warning(
            "records removed unread",
            group=lost.group,
            topic=lost.partition.topic,
            partition=lost.partition.number,
            records=lost.records,
            letters=lost.letters,
            log_start=lost.partition.log_start,
            fix=FIX,
        )
        lost.records = lost.letters = 0
        lost.warn_at = self._clock.monotonic_ms() + WARN_EVERY_MS
