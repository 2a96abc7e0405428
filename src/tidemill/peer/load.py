"""LOAD: what a broker and the shards that it leads use, told to the controller.  Byte table: `docs/formats/peer.md`.

A section has the figures of the broker, of some shards, or of both: a broker that leads many shards spreads them over
several sections.  Fields with unknown tags are skipped, so that a later feature can add figures.  There is no time in
it: the controller notes when it has received a section.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.peer.tagged_fields import MalformedFrame, tagged, tagged_fields

LOAD_BYTES_MAX: Final = 4 << 20
"""A longer section is malformed: a broker sends a few shards at a time, and their members have 30 bytes each."""

_BROKER: Final = 1
_SHARD: Final = 2
_BROKER_FIELDS: Final = Struct(">QQIQQ")  # disk total, disk used, CPU, bytes in, bytes out
_SHARD_FIELDS: Final = Struct(">QQQQIBHH")  # shard, term, size, bytes in, CPU, flags, voters, learners
_VOTER: Final = Struct(">I16sB")  # broker id, directory id, whether it is in sync
_LEARNER: Final = Struct(">I16sQ")  # broker id, directory id, bytes behind
_IS_MEASURED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """What a broker uses."""

    disk_total: int  # bytes
    disk_used: int  # bytes, of everything on that disk
    cpu: int  # per mille of a core, on average
    bytes_in: int  # per second, from clients, on average
    bytes_out: int  # per second, to clients, on average


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLoad:
    """What a shard uses, and who its members are, as its leader knows it."""

    shard_id: ShardId
    term: int  # in which the sender leads the shard, confirmed
    size: int  # bytes of the leader's replica
    is_measured: bool  # whether the leader has led for long enough to know the two averages; otherwise they are 0
    bytes_in: int = 0  # per second, appended by this leader, on average
    cpu: int = 0  # per mille of a core that the leader spends on it, on average
    voters: tuple[ReplicaKey, ...]  # the members in force
    learners: tuple[ReplicaKey, ...] = ()
    in_sync: frozenset[BrokerId]  # the voters that have what is committed, including the leader
    behind: tuple[int, ...] = ()  # for each learner: the bytes that it lacks, estimated


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One section."""

    broker: BrokerLoad | None
    shards: tuple[ShardLoad, ...]


def encode_load(load: Load) -> bytes:
    """Return the body of a section."""
    fields: list[bytes] = []
    if load.broker is not None:
        it = load.broker
        field = _BROKER_FIELDS.pack(it.disk_total, it.disk_used, it.cpu, it.bytes_in, it.bytes_out)
        fields.append(tagged(_BROKER, field))
    fields += [tagged(_SHARD, _encode_shard(shard)) for shard in load.shards]
    return b"".join(fields)


def _encode_shard(shard: ShardLoad) -> bytes:
    flags = _IS_MEASURED if shard.is_measured else 0
    voters, learners = shard.voters, shard.learners
    parts = [
        _SHARD_FIELDS.pack(
            shard.shard_id,
            shard.term,
            shard.size,
            shard.bytes_in,
            shard.cpu,
            flags,
            len(voters),
            len(learners),
        )
    ]
    parts += [_VOTER.pack(it.broker_id, it.directory_id, it.broker_id in shard.in_sync) for it in voters]
    behind = zip(learners, shard.behind, strict=True)
    parts += [_LEARNER.pack(it.broker_id, it.directory_id, bytes_behind) for it, bytes_behind in behind]
    return b"".join(parts)


def decode_load(body: memoryview) -> Load:
    """Decode the body of a section.  Raises MalformedFrame."""
    if len(body) > LOAD_BYTES_MAX:
        raise MalformedFrame(f"a report of the load has {len(body)} bytes; it may have {LOAD_BYTES_MAX}")
    broker: BrokerLoad | None = None
    shards: list[ShardLoad] = []
    for tag, field in tagged_fields(body, "a report of the load"):
        if tag == _BROKER:
            broker = _decode_broker(field)
        elif tag == _SHARD:
            shards.append(_decode_shard(field))
    return Load(broker=broker, shards=tuple(shards))


def _decode_broker(field: memoryview) -> BrokerLoad:
    if len(field) != _BROKER_FIELDS.size:
        raise MalformedFrame(f"the figures of a broker have {_BROKER_FIELDS.size} bytes, not {len(field)}")
    disk_total, disk_used, cpu, bytes_in, bytes_out = _BROKER_FIELDS.unpack(field)
    return BrokerLoad(disk_total=disk_total, disk_used=disk_used, cpu=cpu, bytes_in=bytes_in, bytes_out=bytes_out)


def _decode_shard(field: memoryview) -> ShardLoad:
    if len(field) < _SHARD_FIELDS.size:
        raise MalformedFrame(f"the figures of a shard have at least {_SHARD_FIELDS.size} bytes, not {len(field)}")
    shard_id, term, size, bytes_in, cpu, flags, voter_count, learner_count = _SHARD_FIELDS.unpack_from(field)
    learners_at = _SHARD_FIELDS.size + voter_count * _VOTER.size
    wanted = learners_at + learner_count * _LEARNER.size
    if len(field) != wanted:  # checked before anything is allocated for the members
        raise MalformedFrame(
            f"the figures of a shard with {voter_count} voters and {learner_count} learners have {wanted} bytes, "
            f"not {len(field)}"
        )
    voters = [*_VOTER.iter_unpack(field[_SHARD_FIELDS.size : learners_at])]
    learners = [*_LEARNER.iter_unpack(field[learners_at:])]
    return ShardLoad(
        shard_id=ShardId(shard_id),
        term=term,
        size=size,
        is_measured=bool(flags & _IS_MEASURED),
        bytes_in=bytes_in,
        cpu=cpu,
        voters=_keys(voters),
        learners=_keys(learners),
        in_sync=frozenset(BrokerId(broker_id) for broker_id, _, is_in_sync in voters if is_in_sync),
        behind=tuple(bytes_behind for _, _, bytes_behind in learners),
    )


def _keys(members: Sequence[tuple[int, bytes, int]]) -> tuple[ReplicaKey, ...]:
    return tuple(ReplicaKey(BrokerId(broker_id), DirectoryId(directory_id)) for broker_id, directory_id, _ in members)
