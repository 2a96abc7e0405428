"""The registry of shard state machines, and the sections that machines contribute."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import error
from typing import Any

import pytest

from tests.unit.storage.conftest import TOPIC
from tidemill.raft.entry import COMMAND, Entry
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.storage.journal.row import RowKind
from tidemill.storage.machine.default_machines import default_machines
from tidemill.storage.machine.machine_sections import (
    UnknownSection,
    encode_section,
    encode_sections,
    load_sections,
    read_sections,
)
from tidemill.storage.machine.shard_machine import (
    Batches,
    Interest,
    MachineRegistry,
    MachineType,
    ShardMachines,
    UnknownCommand,
)
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.storage.partition.partition_state import ByteReader
from tidemill.storage.partition.tail_cache import TailCache

EIGHT = Interest(commands=frozenset((8,)))


@dataclass
class Recorder:
    """A machine that records its calls."""

    calls: list[tuple[str, int]] = field(default_factory=list)
    state: Mapping[int, bytes] = field(default_factory=dict)
    is_restored: bool = True

    def appended(self, entry: Entry, header: Any, commit_index: int) -> None:
        self.calls.append(("appended", entry.index))

    def committed(self, entry: Entry) -> None:
        self.calls.append(("committed", entry.index))

    def truncated(self, from_index: int) -> None:
        self.calls.append(("truncated", from_index))

    def forget_expired(self, commit_index: int, committed_append_time: int) -> None:
        self.calls.append(("forget_expired", commit_index))

    def save(self, commit_index: int, last_index: int) -> Mapping[int, bytes]:
        return self.state

    def load(self, saved: Mapping[int, bytes]) -> None:
        self.state = dict(saved)


def recorded(
    number: int = 90, version: int = 1, at_append: Interest = EIGHT, at_commit: Interest = EIGHT
) -> tuple[Recorder, MachineType]:
    machine = Recorder()
    it = MachineType(
        number=number,
        version=version,
        make=lambda _: machine,
        decode=bytes,
        at_append=at_append,
        at_commit=at_commit,
    )
    return machine, it


def with_machines(make_hand: Callable[..., Any], *types: MachineType) -> Any:
    """A store whose shards also have these state machines."""
    hand = make_hand()
    hand.store.machines = default_machines(1_000, *types)
    hand.store.shards.clear()
    return hand


def command(hand: Any, number: int) -> None:
    entry = Entry(COMMAND, bytes((number,)))
    entry.index, entry.term = hand.shard.last_index + 1, 1
    hand.store.append(hand.shard, [entry])


def test_a_machine_is_given_the_commands_it_asks_for(make_hand: Callable[..., Any]) -> None:
    """
    A machine is called only for the commands that it asks for, and not for batches.  A truncation reports the first
    removed index.
    """
    machine, it = recorded()
    _, other = recorded(91, at_append=Interest(commands=frozenset((7,))), at_commit=Interest())
    hand = with_machines(make_hand, it, other)
    log = hand.store.shards.setdefault(1, _shard(hand))
    for number in (7, 8, 8, 8):
        command(hand, number)
    hand.append(1, producer_id=9, producer_epoch=0, base_sequence=0)

    log.commit(2)
    log.truncate(4)

    assert [("appended", 2), ("appended", 3), ("appended", 4), ("committed", 2), ("truncated", 4)] == machine.calls


@pytest.mark.parametrize(
    ("batches", "appended"), [(Batches.NONE, []), (Batches.OF_PRODUCERS, [2]), (Batches.ALL, [1, 2])]
)
def test_a_machine_is_given_the_batches_it_asks_for(
    make_hand: Callable[..., Any], batches: Batches, appended: list[int]
) -> None:
    """
    At append and at commit, a machine gets the batches that it asks for: all, only those with a producer id, or none.
    """
    machine, it = recorded(at_append=Interest(batches), at_commit=Interest(Batches.ALL))
    hand = with_machines(make_hand, it)
    log = hand.store.shards.setdefault(1, _shard(hand))
    hand.append(1)
    hand.append(1, producer_id=9, producer_epoch=0, base_sequence=0)

    log.commit(2)

    assert appended == [index for call, index in machine.calls if call == "appended"]
    assert [1, 2] == [index for call, index in machine.calls if call == "committed"]


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_a_start_refuses_an_unknown_command(make_hand: Callable[..., Any], *, is_checkpointed: bool) -> None:
    """
    A start refuses an unknown command, both in the journal and in a checkpoint.  The message gives the number of the
    command and its entry.
    """
    from tests.unit.storage.conftest import ME, SHARD

    hand = make_hand()
    hand.store.machines = default_machines(1_000, recorded()[1])
    hand.store.shards.clear()
    log = hand.store.shards.setdefault(SHARD, _shard(hand))
    hand.store.blocks.rows.put_control_row(SHARD, Entry(RowKind.OPENED, log.descriptor.encode()))
    hand.store.vote(SHARD, log, 1, ME)
    command(hand, 8)
    hand.write()
    if is_checkpointed:
        hand.checkpoint()

    with pytest.raises(UnknownCommand, match=r"entry 1 of shard 1 is command 8, .*: a newer version wrote it"):
        hand.restarted()


def test_an_unknown_command_never_joins_a_log(hand: Any) -> None:
    """A leader does not append a command that it does not know, because the other replicas could not apply it."""
    with pytest.raises(UnknownCommand):
        command(hand, 8)


def _shard(hand: Any) -> Any:
    from tests.unit.storage.conftest import ME, SHARD, TOPIC
    from tidemill.raft.voters import Membership
    from tidemill.storage.journal.shard_log import ShardDescriptor, ShardLog

    descriptor = ShardDescriptor(
        topic_id=TOPIC, first_partition=0, partition_count=2, feature_level=1, membership=Membership((ME,))
    )
    return ShardLog(hand.disk, hand.store.cache, SHARD, descriptor, hand.store.machines)


def machines(*types: MachineType) -> ShardMachines:
    partitions = {number: PartitionLog(SimulatedDisk(), TailCache(0), TOPIC, number) for number in (0, 5)}
    return MachineRegistry(types).make(partitions)


def test_sections_are_read_as_they_were_written() -> None:
    """
    The section of a machine is read back as it was written.  A machine without state writes no section, and has no
    state after a load.
    """
    one, first = recorded(90)
    two, second = recorded(91)
    one.state = {0: b"zero", 5: b""}
    data = encode_sections(machines(first, second), 7, 9)
    two.state = {3: b"from before"}

    reader = ByteReader(data)
    known = machines(first, second)
    load_sections(known, read_sections(reader, known))

    assert len(data) == reader.at
    assert ({0: b"zero", 5: b""}, {}) == (one.state, two.state)


@pytest.mark.parametrize(("number", "version"), [(92, 1), (90, 2)])
def test_an_unknown_section_is_refused(number: int, version: int) -> None:
    """The message about an unknown section names the machine and the version that the section needs."""
    data = (1).to_bytes(4) + encode_section(number, version, {0: b"state"})

    with pytest.raises(UnknownSection, match=f"machine {number}, version {version}; this program .*feature level"):
        read_sections(ByteReader(data), machines(recorded(90)[1]))


def test_a_section_that_does_not_add_up_is_refused() -> None:
    """
    A section is refused if its sizes do not add up: in this test, the last state reaches beyond the end of the section.
    """
    data = bytearray((1).to_bytes(4) + encode_section(90, 1, {0: b"state"}))
    data[11] -= 1

    with pytest.raises(error):
        read_sections(ByteReader(bytes(data)), machines(recorded(90)[1]))


def test_a_machine_number_is_registered_once() -> None:
    """
    A machine number is registered only once, because two machines with the same number could not be told apart on disk.
    """
    with pytest.raises(AssertionError, match="machine number 90 is registered twice"):
        MachineRegistry([recorded(90)[1], recorded(90)[1]])


def test_a_batch_without_listeners_reaches_no_machine() -> None:
    """
    If no machine asks for anything, a batch calls none: the machines to call are computed when the shard is opened.
    """
    quiet = machines(recorded(at_append=Interest(), at_commit=Interest())[1])

    assert ((), (), {}, False) == (
        quiet.batch_appended,
        quiet.producer_batch_appended,
        quiet.command_appended,
        quiet.has_commit_listeners,
    )
