"""Warns about records that retention or DeleteRecords removed before share groups had finished them.

The number of these records is durable (`Share.expired_unread`).  Only the leader warns, once for each group and each
move of the log start.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tidemill.broker.machine import Machine
from tidemill.broker.rate_limited_events import RateLimitedEvents
from tidemill.broker.shares.share_openings import share_machine
from tidemill.model.dead_letters import is_redrive
from tidemill.shard.partition import Partition
from tidemill.shard.shard import Shard
from tidemill.share.share import Removed

FIX: Final = "let the consumers of the group keep up, or raise retention.ms or retention.bytes of the topic"


class RemovedRecords:
    def __init__(self, machine: Machine, removed: Callable[[Partition, str, Removed], None]) -> None:
        """`removed` is called with a partition, a group that has lost records, and what it has lost."""
        self._events = machine.events
        self._rate = RateLimitedEvents(machine.clock)
        self._removed = removed

    def watch(self, shard: Shard) -> None:
        """Warn about the records of a shard, while this broker leads it."""
        share_machine(shard.log).removed = partial(self._lost, shard)

    def _lost(self, shard: Shard, number: int, by_group: Mapping[str, Removed]) -> None:
        if not shard.is_serving:
            return
        partition = shard.partitions[number]
        for group, lost in by_group.items():
            # The share of a redrive counts letters that were not sent back: retention may remove these.
            if not is_redrive(group) and self._rate.may_log():
                self._events.warning(
                    "records removed unread",
                    group=group,
                    topic=partition.topic,
                    partition=number,
                    records=lost.unread,
                    letters=lost.letters,
                    log_start=partition.log_start,
                    fix=FIX,
                )
            self._removed(partition, group, lost)
