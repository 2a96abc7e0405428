"""Random rows of share groups and the states that they must lead to, for simulations that run the real state machine of
share groups.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from random import Random

from tidemill.raft.entry import COMMAND, Command, Entry, read_log_start
from tidemill.share.interval_map import Interval
from tidemill.share.partition_shares import PartitionShares
from tidemill.share.record_status import Reason, RecordState, RecordStatus
from tidemill.share.share_row import (
    SHARE,
    AssignLetters,
    CloseShare,
    Letter,
    LettersWritten,
    OpenShare,
    Section,
    SetRuns,
    decode_row,
    encode_row,
)
from tidemill.simulation.store.store_model import ShardModel
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.machine.shard_machine import MachineNumber, MachineType
from tidemill.storage.machine.share_machine import ShareMachine, encode_shares, share_groups
from tidemill.storage.partition.partition_log import PartitionLog

Observer = Callable[[PartitionLog, int, object], None]  # (partition, log index of a row, state after the row)
_SHARES_MAX = 12  # rows use share numbers from 1 to this; a run opens about this many shares
_OFFSETS_MAX = 40


class ObservedShareMachine(ShareMachine):
    """The state machine of share groups, which also reports the state of a partition after each row."""

    def __init__(self, observer: Observer, partitions: Mapping[int, PartitionLog]) -> None:
        super().__init__(partitions)
        self._observer = observer
        self._partitions = partitions

    def committed(self, entry: Entry) -> None:
        super().committed(entry)
        assert entry.payload is not None
        if entry.payload[0] == SHARE:
            for number in {section.partition for section in decode_row(entry.payload)}:
                self._observer(self._partitions[number], entry.index, encode_shares(self.shares[number]))


def observed_share_groups(observer: Observer) -> MachineType:
    return replace(share_groups(), make=partial(ObservedShareMachine, observer))


def share_row(random: Random, partition: int, append_time: int) -> Entry:
    """Return a row that changes the shares of a partition.  Many rows change nothing, like rows that arrive late."""
    sections = [_section(random, partition) for _ in range(random.choice((1, 1, 2, 4)))]
    return Entry(COMMAND, encode_row(sections), partition=partition, append_time=append_time)


def shares_of(log: ShardLog, number: int) -> object:
    machine = log.machines.by_number[MachineNumber.SHARE_PARTITIONS]
    assert isinstance(machine, ShareMachine)
    return encode_shares(machine.shares[number])


def differences_in_shares(shard: ShardModel, log: ShardLog) -> Iterator[str]:
    """Yield a sentence for each partition whose state differs from what the model's committed entries lead to."""
    wanted = {number: PartitionShares() for number in log.partitions}
    for entry in shard.entries:
        if entry.kind != COMMAND or entry.log_index > log.commit_index:
            continue
        if entry.payload[0] == SHARE:
            for section in decode_row(entry.payload):
                wanted[section.partition].apply(section)
        elif entry.payload[0] == Command.LOG_START:
            number, offset = read_log_start(entry.payload)
            wanted[number].log_starts_at(offset)
    for number, shares in wanted.items():
        if encode_shares(shares) != shares_of(log, number):
            yield f"partition {number}: the shares are {shares_of(log, number)!r}, the entries say {shares.by_number}"


def _section(random: Random, partition: int) -> Section:
    share = random.randint(1, _SHARES_MAX)
    offsets = sorted(random.sample(range(_OFFSETS_MAX), 2))
    match random.randrange(12):
        case 0 | 1:
            group = random.choice(("audit", "billing", "mail"))
            return OpenShare(partition, group, random.randint(1, 4), random.randint(0, 2), offsets[0])
        case 2 if random.random() < 0.3:
            return CloseShare(partition, share, random.randint(1, 4))
        case 3:
            return AssignLetters(partition, share, (Letter(offsets[0], 5, offsets[1], b"d" * 16, 0),))
        case 4:
            return LettersWritten(partition, share, tuple(offsets))
    release_at = random.choice((0, 0, 1_000))
    state = random.choice(list(RecordState))
    status = RecordStatus(state, random.randint(1, 5), release_at, random.choice(list(Reason)))
    return SetRuns(partition, share, (Interval(*offsets, status),))
