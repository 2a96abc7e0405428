"""Share groups as a shard state machine (number 3).  Section: `docs/formats/shares.md`.

The state changes only at commit, so a truncation undoes nothing.
"""

from array import array
from collections.abc import Callable, Mapping
from itertools import pairwise
from struct import Struct, error
from sys import byteorder
from typing import Final

from tidemill.batches.batch import BatchHeader
from tidemill.raft.entry import Command, Entry, read_log_start
from tidemill.share.interval_map import IntervalMap
from tidemill.share.partition_shares import PartitionShares
from tidemill.share.record_status import NEVER_DELIVERED
from tidemill.share.share import Removed, Share
from tidemill.share.share_row import (
    LETTER_BYTES,
    SHARE,
    UnknownShareRow,
    decode_letters,
    decode_row,
    encode_letter,
    run_fields,
    run_from,
)
from tidemill.storage.machine.shard_machine import Interest, MachineNumber, MachineType, UnknownCommand
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.storage.partition.partition_state import COUNT, ByteReader

VERSION: Final = 1
_HEAD: Final = Struct(">II")  # next share number, number of shares
_SHARE: Final = Struct(">IQIQQH")  # number, incarnation, state epoch, start, expired unread, length of the group id
_COLUMNS: Final = "QQBHQ"  # type codes of a run's columns: first, length, state, delivery count, release time


RecordsRemoved = Callable[[int, Mapping[str, Removed]], None]
"""Takes the partition, and what each group has lost."""


class ShareMachine:
    """The share groups of a shard's partitions."""

    is_restored = True

    def __init__(self, partitions: Mapping[int, PartitionLog]) -> None:
        self.shares = {number: PartitionShares() for number in partitions}
        self.removed: RecordsRemoved | None = None  # called when a LOG_START command removes what a group has not read

    def appended(self, entry: Entry, header: BatchHeader | None, commit_index: int) -> None:
        raise AssertionError(f"share groups do not change at append ({entry})")

    def committed(self, entry: Entry) -> None:
        """
        Apply a SHARE or LOG_START command.  Raise UnknownCommand if a newer version has written it.
        """
        assert entry.payload is not None, f"{entry} has lost its command"
        if entry.payload[0] == Command.LOG_START:
            number, offset = read_log_start(entry.payload)
            lost = self.shares[number].log_starts_at(offset)
            if lost and self.removed is not None:
                self.removed(number, lost)
            return
        try:
            for section in decode_row(entry.payload):
                self.shares[section.partition].apply(section)
        except UnknownShareRow as unknown:
            raise UnknownCommand(
                f"entry {entry.index}: {unknown}; run the version that wrote it, or a later one"
            ) from None

    def truncated(self, from_index: int) -> None:
        pass

    def forget_expired(self, commit_index: int, committed_append_time: int) -> None:
        pass

    def save(self, commit_index: int, last_index: int) -> dict[int, bytes]:
        return {number: encode_shares(shares) for number, shares in self.shares.items() if not shares.is_unused}

    def load(self, saved: Mapping[int, PartitionShares]) -> None:
        self.shares = {number: saved.get(number) or PartitionShares() for number in self.shares}


def encode_shares(shares: PartitionShares) -> bytes:
    """Return the section's bytes for one partition."""
    encoded = [_encoded(share) for share in shares.by_number.values()]
    return _HEAD.pack(shares.next_number, len(encoded)) + b"".join(encoded)


def decode_shares(data: bytes) -> PartitionShares:
    """Return the shares of a partition.  Raises struct.error if `data` is corrupt."""
    reader = ByteReader(data)
    next_number, count = reader.numbers(_HEAD)
    shares = [_read_share(reader) for _ in range(count)]
    if reader.at != len(data):
        raise error(f"{len(data) - reader.at} B follow the last share")
    if len({share.number for share in shares}) < count or not all(0 < share.number < next_number for share in shares):
        raise error(f"the share numbers are not distinct numbers below {next_number}")
    if len({share.group for share in shares}) < count:
        raise error("a group has two shares")
    return PartitionShares(shares, next_number)


def share_groups() -> MachineType:
    """Return the machine type of share groups."""
    return MachineType(
        number=MachineNumber.SHARE_PARTITIONS,
        version=VERSION,
        make=ShareMachine,
        decode=decode_shares,
        at_commit=Interest(commands=frozenset((SHARE, Command.LOG_START))),
    )


def _encoded(share: Share) -> bytes:
    group = share.group.encode()
    head = _SHARE.pack(
        share.number, share.incarnation, share.state_epoch, share.start, share.expired_unread, len(group)
    )
    runs = [(*run_fields(run), run.value.release_at) for run in share.runs]
    values = zip(*runs, strict=True) if runs else [()] * len(_COLUMNS)
    columns = [_swapped(array(code, column)).tobytes() for code, column in zip(_COLUMNS, values, strict=True)]
    letters = [encode_letter(letter) for letter in share.letters.values()]
    return b"".join([head, group, COUNT.pack(len(runs)), *columns, COUNT.pack(len(letters)), *letters])


def _read_share(reader: ByteReader) -> Share:
    number, incarnation, state_epoch, start, expired_unread, length = reader.numbers(_SHARE)
    group = _text(reader.bytes(length))
    run_count = reader.count()
    columns = [_read_column(reader, code, run_count) for code in _COLUMNS]
    runs = IntervalMap(NEVER_DELIVERED, [run_from(*fields) for fields in zip(*columns, strict=True)])
    if any(before.end > after.first for before, after in pairwise(runs)):
        raise error(f"runs of group {group!r} overlap")
    letters = decode_letters(reader.bytes(reader.count() * LETTER_BYTES))
    return Share(
        number=number,
        group=group,
        incarnation=incarnation,
        state_epoch=state_epoch,
        start=start,
        runs=runs,
        letters={letter.offset: letter for letter in letters},
        expired_unread=expired_unread,
    )


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise error(f"a group id is not UTF-8: {problem}") from None


def _read_column(reader: ByteReader, code: str, count: int) -> "array[int]":
    column = array(code)
    data = reader.bytes(count * column.itemsize)
    if len(data) < count * column.itemsize:
        raise error(f"a column of {count} runs ends after {len(data)} B")
    column.frombytes(data)
    return _swapped(column)


def _swapped(column: "array[int]") -> "array[int]":
    """Convert a column between the machine's byte order and big-endian, in place."""
    if byteorder == "little":
        column.byteswap()
    return column
