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

    records: int = 0
    letters: int = 0
    warn_at: int = 0  # in ms of the monotonic clock


class RemovedRecords:
    def __init__(self, machine: Machine, removed: Callable[[Partition, str, Removed], None]) -> None:
        """`removed` is called with a partition, a group that has lost records, and what it has lost."""
        self._events = machine.events
        self._clock = machine.clock
        self._removed = removed

    def watch(self, shard: Shard) -> None:
        """Warn about the records of a shard, while this broker leads it."""
        share_machine(shard.log).removed = partial(self._lost, shard, {})

    def _lost(
        self,
        shard: Shard,
        unreported: dict[tuple[int, str], _Unreported],
        number: int,
        by_group: Mapping[str, Removed],
    ) -> None:
        if not shard.is_serving:
            return
        partition = shard.partitions[number]
        for group, lost in by_group.items():
            # The share of a redrive counts letters that were not sent back: retention may remove these.
            if not is_redrive(group):
                self._report(partition, group, lost, unreported.setdefault((number, group), _Unreported()))
            self._removed(partition, group, lost)

    def _report(self, partition: Partition, group: str, lost: Removed, unreported: _Unreported) -> None:
        unreported.records += lost.unread
        unreported.letters += lost.letters
        now_ms = self._clock.monotonic_ms()
        if now_ms < unreported.warn_at:
            return
        self._events.warning(
            "records removed unread",
            group=group,
            topic=partition.topic,
            partition=partition.number,
            records=unreported.records,
            letters=unreported.letters,
            log_start=partition.log_start,
            fix=FIX,
        )
        unreported.records = unreported.letters = 0
        unreported.warn_at = now_ms + WARN_EVERY_MS
