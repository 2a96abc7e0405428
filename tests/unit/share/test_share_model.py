"""The durable state of share groups, compared with dictionaries that have one status per offset."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.share.random_sections import CHANGES, PARTITIONS, SECTIONS
from tidemill.share.partition_shares import PartitionShares
from tidemill.share.record_status import NEVER_DELIVERED, RecordState, RecordStatus
from tidemill.share.share import Removed, Share
from tidemill.share.share_row import AssignLetters, CloseShare, Letter, LettersWritten, OpenShare, Section, SetRuns


class LogStart(NamedTuple):
    partition: int
    offset: int


_OPENED = [OpenShare(partition, group, 1, 0, 0) for partition in range(PARTITIONS) for group in ("a", "b")]
_LOG_STARTS = st.builds(LogStart, st.integers(0, PARTITIONS - 1), st.integers(0, 60))
COMMANDS = st.tuples(  # first, two shares of each partition are open for long, then the others come and go
    st.lists(st.one_of(CHANGES, CHANGES, _LOG_STARTS), min_size=10, max_size=40),
    st.lists(st.one_of(SECTIONS, _LOG_STARTS), max_size=10),
).map(lambda lists: [*_OPENED, *lists[0], *lists[1]])


@dataclass
class ModelShare:
    """The rules of `docs/formats/shares.md`, applied to one offset at a time."""

    group: str
    version: tuple[int, int]  # incarnation and state epoch
    start: int
    statuses: dict[int, RecordStatus] = field(default_factory=dict)
    letters: dict[int, Letter] = field(default_factory=dict)
    expired_unread: int = 0

    def state_of(self, offset: int) -> RecordState:
        return self.statuses.get(offset, NEVER_DELIVERED).state

    def is_dead(self, offset: int) -> bool:
        return offset >= self.start and self.state_of(offset) == RecordState.ARCHIVING

    def set(self, offset: int, status: RecordStatus) -> None:
        if offset >= self.start:
            self.statuses[offset] = status
            if status.state != RecordState.ARCHIVING:
                self.letters.pop(offset, None)

    def assign(self, letter: Letter) -> None:
        if letter.offset in self.letters or self.is_dead(letter.offset):
            self.letters[letter.offset] = letter

    def written(self, offset: int) -> None:
        self.letters.pop(offset, None)
        if self.is_dead(offset):
            self.statuses[offset] = self.statuses[offset]._replace(state=RecordState.ARCHIVED)

    def log_starts_at(self, log_start: int) -> Removed:
        gone = range(self.start, log_start)
        unread = sum(self.state_of(offset) == RecordState.AVAILABLE for offset in gone)
        letters = sum(self.is_dead(offset) and offset not in self.letters for offset in gone)
        self.start = max(self.start, log_start)
        self.expired_unread += unread
        return Removed(unread, letters)

    def advance(self) -> None:
        while self.state_of(self.start) in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED):
            self.start += 1
        self.statuses = {offset: status for offset, status in self.statuses.items() if offset >= self.start}


class ModelPartition:
    """The shares of one partition, by number."""

    def __init__(self) -> None:
        self.shares: dict[int, ModelShare] = {}
        self.opened = 0  # how many shares have been opened

    def apply(self, section: Section) -> None:
        if isinstance(section, OpenShare):
            self._open(section)
            return
        share = self.shares.get(section.share)
        if share is None:
            return
        match section:
            case CloseShare(incarnation=incarnation):
                if share.version[0] <= incarnation:
                    del self.shares[section.share]
            case SetRuns(runs=runs):
                for run in runs:
                    for offset in range(run.first, run.end):
                        share.set(offset, run.value)
            case AssignLetters(letters=letters):
                for letter in letters:
                    share.assign(letter)
            case LettersWritten(offsets=offsets):
                for offset in offsets:
                    share.written(offset)
        share.advance()

    def log_starts_at(self, log_start: int) -> Mapping[str, Removed]:
        lost = {share.group: share.log_starts_at(log_start) for share in self.shares.values()}
        for share in self.shares.values():
            share.advance()
        return {group: removed for group, removed in lost.items() if any(removed)}

    def _open(self, section: OpenShare) -> None:
        version = (section.incarnation, section.state_epoch)
        for number, share in [*self.shares.items()]:
            if share.group == section.group:
                if version <= share.version:
                    return
                del self.shares[number]
        self.opened += 1
        self.shares[self.opened] = ModelShare(section.group, version, section.start)


def statuses_of(share: Share) -> Iterator[tuple[int, RecordStatus]]:
    return ((offset, run.value) for run in share.runs for offset in range(run.first, run.end))


def modelled(share: Share) -> ModelShare:
    return ModelShare(
        share.group,
        (share.incarnation, share.state_epoch),
        share.start,
        dict(statuses_of(share)),
        share.letters,
        share.expired_unread,
    )


def without_defaults(share: ModelShare) -> ModelShare:
    """Return the share without the statuses of records that were never delivered: a share does not store them."""
    share.statuses = {offset: status for offset, status in share.statuses.items() if status != NEVER_DELIVERED}
    return share


@given(COMMANDS)
def test_shares_agree_with_a_model_of_single_offsets(commands: list[Section | LogStart]) -> None:
    """After each command, the shares of a partition have the status, the letters and the start that the model has."""
    shares = [PartitionShares() for _ in range(PARTITIONS)]
    models = [ModelPartition() for _ in range(PARTITIONS)]

    for command in commands:
        partition, model = shares[command.partition], models[command.partition]
        if isinstance(command, LogStart):
            assert model.log_starts_at(command.offset) == partition.log_starts_at(command.offset)
        else:
            model.apply(command)
            partition.apply(command)

        assert model.opened + 1 == partition.next_number
        assert {number: without_defaults(share) for number, share in model.shares.items()} == {
            number: modelled(share) for number, share in partition.by_number.items()
        }
