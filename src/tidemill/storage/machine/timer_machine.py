"""Timers as a shard state machine (number 4).  Section: `docs/formats/timers.md`.

The machine reads batches when they are appended, while their bytes are in memory.  The state changes at commit.  Only
shards of timer topics have one.
"""

from collections.abc import Callable, Mapping
from typing import Final

from tidemill.batches.batch import BatchHeader
from tidemill.model.timer_logs import ARRIVALS, arrivals_of, is_hidden, released_of
from tidemill.raft.entry import BATCH, Entry
from tidemill.storage.machine.shard_machine import Batches, Interest, MachineNumber, MachineType, UnknownCommand
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.timer.arrival_records import arrivals_in, consumed_by, kept_in
from tidemill.timer.timer_changes import Change, Decided, Released, Relocated
from tidemill.timer.timer_command import TIMER, UnknownTimerCommand, decode_command
from tidemill.timer.timer_partition import TimerPartition

VERSION: Final = 1


class TimerMachine:
    """What waits in the timer partitions of a shard."""

    def __init__(self, partitions: Mapping[int, PartitionLog]) -> None:
        self._topic_ids = {number: log.topic_id for number, log in partitions.items() if not is_hidden(number)}
        self.partitions = {number: TimerPartition() for number in self._topic_ids}
        # Called with the number of a partition when what waits of it has changed.
        self.changed: Callable[[int], None] | None = None

    @property
    def is_restored(self) -> bool:
        return all(it.is_restored for it in self.partitions.values())

    def appended(self, entry: Entry, header: BatchHeader | None, commit_index: int) -> None:
        assert entry.payload is not None, f"{entry} has no bytes"
        if entry.kind == BATCH:
            self.partitions[released_of(entry.partition)].appended(entry.index, self._change(entry))
            return
        try:
            for section in decode_command(entry.payload):
                self.partitions[section.partition].appended(entry.index, Decided(section))
        except UnknownTimerCommand as unknown:
            raise UnknownCommand(
                f"entry {entry.index}: {unknown}; run the version that wrote it, or a later one"
            ) from None

    def _change(self, entry: Entry) -> Change:
        number, payload = entry.partition, entry.payload
        assert payload is not None, f"{entry} has no bytes"
        if not is_hidden(number):
            return Released(consumed_by(payload), entry.append_time)
        if number & ARRIVALS:
            topic_id = self._topic_ids[released_of(number)]
            return arrivals_in(payload, entry.base_offset, entry.position, topic_id)
        return Relocated(kept_in(payload, entry.base_offset, entry.position))

    def committed(self, entry: Entry) -> None:
        if entry.kind == BATCH:
            touched = {released_of(entry.partition)}
        else:
            assert entry.payload is not None, f"{entry} has lost its command"
            touched = {section.partition for section in decode_command(entry.payload)}
        for number in touched:
            self.partitions[number].committed(entry.index)
            if self.changed is not None:
                self.changed(number)

    def truncated(self, from_index: int) -> None:
        for partition in self.partitions.values():
            partition.truncated(from_index)

    def forget_expired(self, commit_index: int, committed_append_time: int) -> None:
        pass

    def save(self, commit_index: int, last_index: int) -> dict[int, bytes]:
        return {number: it.save(last_index) for number, it in self.partitions.items() if not it.is_unused}

    def load(self, saved: Mapping[int, TimerPartition]) -> None:
        self.partitions = {number: saved.get(number) or TimerPartition() for number in self.partitions}
        if self.changed is not None:
            for number in self.partitions:
                self.changed(number)


def has_timers(partitions: Mapping[int, PartitionLog]) -> bool:
    """Return whether these are the logs of a shard of a timer topic."""
    return any(arrivals_of(number) in partitions for number in partitions)


def timers() -> MachineType:
    """Return the machine type of timers."""
    return MachineType(
        number=MachineNumber.TIMERS,
        version=VERSION,
        make=TimerMachine,
        decode=TimerPartition.load,
        at_append=Interest(Batches.ALL, frozenset((TIMER,))),
        at_commit=Interest(Batches.ALL, frozenset((TIMER,))),
        is_for=has_timers,
    )
