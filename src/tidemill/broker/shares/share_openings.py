"""Opens shares: question to the coordinator ─▶ start offset ─▶ OPEN row ─▶ committed.

A leader also asks for a share that it has, once per session of a member: the group may have been deleted and created
again while this broker could not be reached.  Until the answer arrives, the existing share is used.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from tidemill.broker.machine import Machine
from tidemill.broker.shares.led_share import ShareKey
from tidemill.broker.shares.shard_proposals import ShardProposals
from tidemill.broker.shares.share_opener import ShareOpener
from tidemill.coordinator.share_group.responses import ShareOpened
from tidemill.model import errors
from tidemill.model.errors import KafkaError
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


Opened = Callable[[int], None]
"""Takes NONE if a share has been opened or need not be, and the error code if it could not be opened now."""


_FINAL: Final = {
    errors.GROUP_ID_NOT_FOUND: "it does not exist, or it is a group of another type",
    errors.INVALID_GROUP_ID: "the group id is empty or too long",
    errors.UNKNOWN_TOPIC_ID: "its coordinator does not know the topic",
}
"""The reasons of refusals that last.  After any other, the caller begins again."""


def opening_refused(code: int, group: str) -> KafkaError:
    """Return the error for a client whose request needs a share that could not be opened."""
    reason = _FINAL.get(code)
    if reason is not None:
        return KafkaError(code, f"group {group!r}: {reason}")
    if code == errors.NOT_LEADER_OR_FOLLOWER:
        return KafkaError(code, "this broker no longer leads the partition")
    return KafkaError(
        errors.COORDINATOR_NOT_AVAILABLE, f"group {group!r}: its coordinator has not said yet where the group begins"
    )


def is_final(code: int) -> bool:
    """Return whether a share cannot be opened later either."""
    return code in _FINAL


class _Opening(NamedTuple):
    key: ShareKey
    may_create: bool  # whether a missing group is created


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
        self._opening: dict[_Opening, list[Opened]] = {}

    def begin(
        self, key: ShareKey, partition: Partition, *, may_create: bool = False, then: Opened | None = None
    ) -> None:
        """Open a share, unless it is being opened.  `may_create`: create the group if it does not exist."""
        opening = _Opening(key, may_create)
        is_new = opening not in self._opening
        waiting = self._opening.setdefault(opening, [])
        if then is not None:
            waiting.append(then)
        if is_new:
            self._opener.ask(key, lambda opened: self._answered(opening, partition, opened), may_create=may_create)

    def _answered(self, opening: _Opening, partition: Partition, opened: ShareOpened) -> None:
        old = shares_of(partition).of_group(opening.key.group)
        is_needed = not opened.error_code and (old is None or old.incarnation < opened.incarnation)
        if is_needed:
            self._resolve(opening, partition, opened)
        else:
            self._ended(opening, opened.error_code)

    def _resolve(self, opening: _Opening, partition: Partition, opened: ShareOpened) -> None:
        """Determine the start offset, and propose the share."""
        end, start = partition.high_watermark, opened.start
        if start.rule != ResetRule.BY_DURATION:
            offset = partition.log_start if start.rule == ResetRule.EARLIEST else end
            self._propose(opening, partition, opened.incarnation, offset)
            return
        timestamp = self._machine.clock.wall_ms() - start.duration_ms

        self._machine.opening_jobs.submit(
            lambda: _offset_at(partition, timestamp, end),
            lambda offset: self._propose(opening, partition, opened.incarnation, offset),
            self._machine.failed,
        )

    def _propose(self, opening: _Opening, partition: Partition, incarnation: int, start: int | Exception) -> None:
        proposals = self._proposals(partition)
        if isinstance(start, Exception):
            self._ended(opening, errors.KAFKA_STORAGE_ERROR)
            return
        if proposals is None:
            self._ended(opening, errors.NOT_LEADER_OR_FOLLOWER)
            return
        section = OpenShare(
            partition=partition.number, group=opening.key.group, incarnation=incarnation, state_epoch=0, start=start
        )
        proposals.add(section, lambda is_committed: self._committed(opening, is_committed))

    def _committed(self, opening: _Opening, is_committed: bool) -> None:
        self._ended(opening, errors.NONE if is_committed else errors.NOT_LEADER_OR_FOLLOWER)
        if is_committed:
            self._opened(opening.key)

    def _ended(self, opening: _Opening, code: int) -> None:
        for then in self._opening.pop(opening):
            then(code)


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
