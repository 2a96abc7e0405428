"""Opens shares: question to the coordinator ─▶ start offset ─▶ OPEN row ─▶ committed.

A leader also asks for a share that it has, once per session of a member: the group may have been deleted and created
again while this broker could not be reached.  Until the answer arrives, the existing share is used.
"""

from collections.abc import Callable

from tidemill.broker.machine import Machine
from tidemill.broker.shares.led_share import ShareKey
from tidemill.broker.shares.shard_proposals import ShardProposals
from tidemill.broker.shares.share_opener import ShareOpener
from tidemill.coordinator.share_group.responses import ShareOpened
from tidemill.model.offset_reset import ResetRule
from tidemill.shard import lookup
from tidemill.shard.partition import Partition
from tidemill.share.partition_shares import PartitionShares
from tidemill.share.share_row import OpenShare
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.machine.shard_machine import MachineNumber
from tidemill.storage.machine.share_machine import ShareMachine
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.partition.segment import SegmentDamaged


def shares_of(partition: Partition) -> PartitionShares:
    """Return the durable state of all share groups on a partition."""
    return share_machine(partition.shard.log).shares[partition.number]


def share_machine(log: ShardLog) -> ShareMachine:
    """Return the state of all share groups on a shard."""
    machine = log.machines.by_number[MachineNumber.SHARE_PARTITIONS]
    assert isinstance(machine, ShareMachine)
    return machine


class ShareOpenings:
    def __init__(
        self,
        machine: Machine,
        opener: ShareOpener,
        proposals: Callable[[Partition], ShardProposals | None],
        opened: Callable[[ShareKey], None],
    ) -> None:
        """
        `proposals` returns None if this broker does not lead the partition any more.  `opened` is called when a share
        has been opened.  If that is not possible now, the caller begins again at a later tick.
        """
        self._machine = machine
        self._opener = opener
        self._proposals = proposals
        self._opened = opened
        self._opening: set[ShareKey] = set()

    def begin(self, key: ShareKey, partition: Partition) -> None:
        """Open a share, unless it is being opened."""
        if key not in self._opening:
            self._opening.add(key)
            self._opener.ask(key, lambda opened: self._answered(key, partition, opened))

    def _answered(self, key: ShareKey, partition: Partition, opened: ShareOpened) -> None:
        old = shares_of(partition).of_group(key.group)
        is_needed = not opened.error_code and (old is None or old.incarnation < opened.incarnation)
        if is_needed:
            self._resolve(key, partition, opened)
        else:
            self._opening.discard(key)

    def _resolve(self, key: ShareKey, partition: Partition, opened: ShareOpened) -> None:
        """Determine the start offset, and propose the share."""
        end, start = partition.high_watermark, opened.start
        if start.rule != ResetRule.BY_DURATION:
            offset = partition.log_start if start.rule == ResetRule.EARLIEST else end
            self._propose(key, partition, opened.incarnation, offset)
            return
        timestamp = self._machine.clock.wall_ms() - start.duration_ms

        self._machine.read_jobs.submit(
            lambda: _offset_at(partition, timestamp, end),
            lambda offset: self._propose(key, partition, opened.incarnation, offset),
            self._machine.failed,
        )

    def _propose(self, key: ShareKey, partition: Partition, incarnation: int, start: int | Exception) -> None:
        proposals = self._proposals(partition)
        if proposals is None or isinstance(start, Exception):
            self._opening.discard(key)
            return
        section = OpenShare(
            partition=partition.number, group=key.group, incarnation=incarnation, state_epoch=0, start=start
        )
        proposals.add(section, lambda is_committed: self._ended(key, is_committed))

    def _ended(self, key: ShareKey, is_committed: bool) -> None:
        self._opening.discard(key)
        if is_committed:
            self._opened(key)


def _offset_at(partition: Partition, timestamp: int, end: int) -> int | Exception:
    """
    Return the offset of the first record that is not older than `timestamp`, or `end` if there is none; or the error if
    the records cannot be read.
    """
    try:
        found = lookup.first_at_or_after(partition, timestamp, end)
    except (SegmentDamaged, OffsetGone, ValueError) as error:
        return error
    return end if found is None else found.offset
