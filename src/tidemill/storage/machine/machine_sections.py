"""The sections of shard state machines in checkpoints, snapshot offers and INSTALLED rows.

Byte table: `docs/formats/journal.md`.  A section is (machine number, version, length, bytes); its bytes are (partition,
length, bytes) for each partition that has state.  A machine without state in the shard has no section, so an older
version can read a directory until a newer feature has been used in it.
"""

from collections.abc import Mapping
from struct import Struct, error
from typing import Any, Final

from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.machine.shard_machine import MachineNumber, ShardMachines
from tidemill.storage.partition.partition_state import COUNT, ByteReader

_SECTION: Final = Struct(">HHI")  # machine number, version, length of the rest
_PARTITION: Final = Struct(">II")  # partition, length of its state

Sections = dict[int, dict[int, Any]]  # machine number → partition → decoded state


class UnknownSection(DirectoryProblem):
    """The state of a shard has a section that this version of the program cannot read."""


def encode_sections(machines: ShardMachines, commit_index: int, last_index: int) -> bytes:
    """Return the sections of all machines that have state, as of the entry at `last_index`."""
    parts = []
    for number, machine in machines.by_number.items():
        saved = machine.save(commit_index, last_index)
        if saved:
            parts.append(encode_section(number, machines.registry.types[number].version, saved))
    return COUNT.pack(len(parts)) + b"".join(parts)


def encode_section(number: int, version: int, saved: Mapping[int, bytes]) -> bytes:
    body = b"".join([_PARTITION.pack(partition, len(state)) + state for partition, state in saved.items()])
    return _SECTION.pack(number, version, len(body)) + body


def read_sections(reader: ByteReader, machines: ShardMachines) -> Sections:
    """
    Read and decode the sections at the position of `reader`, without changing any machine.  Raises UnknownSection for a
    machine or version that is not registered, and struct.error, with machine, partition and reason, for a corrupt
    section.
    """
    sections: Sections = {}
    for _ in range(reader.count()):
        number, version, length = reader.numbers(_SECTION)
        _check_known(number, version, machines)
        end = reader.at + length
        found: dict[int, bytes] = {}
        while reader.at < end:
            partition, size = reader.numbers(_PARTITION)
            found[partition] = reader.bytes(size)
        if reader.at != end or end > len(reader.data):
            raise error(f"the section of {_named(number)} does not end where it should")
        sections[number] = {partition: _decoded(machines, number, partition, data) for partition, data in found.items()}
    return sections


def load_sections(machines: ShardMachines, sections: Sections) -> None:
    """Replace the state of all machines of a shard.  A machine without a section has no state."""
    for number, machine in machines.by_number.items():
        machine.load(sections.get(number, {}))


def _decoded(machines: ShardMachines, number: int, partition: int, data: bytes) -> Any:
    try:
        if partition not in machines.partitions:
            raise error("not of this shard")
        return machines.registry.types[number].decode(data)
    except error as problem:
        raise error(f"the section of {_named(number)}, partition {partition}: {problem}") from None


def _check_known(number: int, version: int, machines: ShardMachines) -> None:
    known = machines.registry.types.get(number)
    if known is not None and known.version == version:
        return
    reads = "does not know that machine" if known is None else f"reads version {known.version}"
    raise UnknownSection(
        f"the shard's state has a section of {_named(number)}, version {version}; this program {reads}: "
        f"use a release whose feature level includes version {version} of state machine {number}"
    )


def _named(number: int) -> str:
    try:
        return f"state machine {number} ({MachineNumber(number).name.lower().replace('_', ' ')})"
    except ValueError:
        return f"state machine {number}"
