"""A toy coordinator: it keeps sets of members by key, as a replicated core with its own internal topic.

It uses everything that the host of a core offers: records, replies to earlier requests, deadlines, snapshots, and a
call to `drain` when the broker loses leadership.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidemill.broker.coordinators.coordinator_registration import CoordinatorRegistration, CoreContext
from tidemill.coordinator.result import Key, Result, Waiter
from tidemill.coordinator.timestamps import Timestamps
from tidemill.model.internal_topics import InternalTopic, TopicKeys
from tidemill.shard.pending import OutcomeUnknown

KEY_TYPE: Final = 77  # the key type in FindCoordinator
CHUNK_RECORDS: Final = 2


@dataclass(frozen=True)
class Add:
    """A request to add members, which are removed after `lifetime_ms` unless that is None.  The reply is the number of
    members.
    """

    key: str
    members: tuple[str, ...]
    lifetime_ms: int | None = None


@dataclass(frozen=True)
class Read:
    """A request for the members of a set.  The reply lists them in sorted order."""

    key: str


@dataclass(frozen=True)
class Await:
    """A request for the members that is answered, with the members sorted, once `member` is one of them."""

    key: str
    member: str


Request = Add | Read | Await


class Rejected(NamedTuple):
    """The reply to a request that was rejected."""

    reason: int | OutcomeUnknown


class Change(NamedTuple):
    """
    A record that adds or removes a member, or, with an empty key, ends the snapshot that began at offset `member`.
    """

    key: str
    member: str
    is_there: bool = True


@dataclass
class MemberSets:
    """The core of the toy coordinator; it implements `ReplicatedCore`."""

    is_atomic: bool = False
    sets: dict[str, dict[str, None]] = field(default_factory=dict)
    snapshot_size: int = 0
    snapshot_first_offset: int | None = None
    is_loaded: bool = False
    _waiting: list[tuple[Await, Waiter]] = field(default_factory=list)

    def encode(self, record: Change) -> tuple[bytes, bytes | None]:
        return f"{record.key}/{record.member}".encode(), b"" if record.is_there else None

    def decode(self, key: bytes | None, value: bytes | None) -> Change:
        name, slash, member = (key or b"").decode().partition("/")
        if not slash:
            raise ValueError(f"{key!r} has no slash")
        return Change(name, member, value is not None)

    def replay(self, records: Sequence[Change], end_offset: int) -> None:
        for key, member, is_there in records:
            if not key:
                self.snapshot_first_offset = int(member)
                self.snapshot_size = sum(map(len, self.sets.values())) + 1
            elif is_there:
                self.sets.setdefault(key, {})[member] = None
            else:
                self.sets.get(key, {}).pop(member, None)

    def loaded(self, timestamps: Timestamps) -> Result[Change]:
        assert not self.is_loaded
        self.is_loaded = True
        return Result()

    def decide(self, request: Request, waiter: Waiter, timestamps: Timestamps) -> Result[Change]:
        members = self.sets.get(request.key, {})
        match request:
            case Add():
                after = members | dict.fromkeys(request.members)
                replies: list[tuple[Waiter, object]] = [(waiter, len(after))]
                replies += [(it, tuple(sorted(after))) for it in self._take_waiting(request.key, after)]
                deadlines = [
                    ((request.key, member), timestamps.now_ms + request.lifetime_ms)
                    for member in request.members
                    if request.lifetime_ms is not None
                ]
                return Result(
                    tuple(Change(request.key, member) for member in request.members), tuple(replies), tuple(deadlines)
                )
            case Await() if request.member not in members:
                self._waiting.append((request, waiter))
                return Result()
            case _:
                return Result(replies=((waiter, tuple(sorted(members))),))

    def _take_waiting(self, key: str, members: dict[str, None]) -> list[Waiter]:
        due = [it for it in self._waiting if it[0].key == key and it[0].member in members]
        self._waiting = [it for it in self._waiting if it not in due]
        return [waiter for _, waiter in due]

    def expire(self, key: Key, timestamps: Timestamps) -> Result[Change]:
        name, member = key
        return Result((Change(name, member, is_there=False),))

    def drain(self, error_code: int) -> tuple[tuple[Waiter, object], ...]:
        return tuple((waiter, Rejected(error_code)) for _, waiter in self._waiting)

    def is_refused_when_full(self, request: Request) -> bool:
        return isinstance(request, Add)

    def needs_current_metadata(self, request: Request) -> bool:
        return isinstance(request, Await)

    def snapshot(self, first_offset: int, append_time: int) -> Iterator[Sequence[Change]]:
        names = [(key, member) for key, members in self.sets.items() for member in members]
        return self._chunks(names, first_offset)

    def _chunks(self, names: list[tuple[str, str]], first_offset: int) -> Iterator[Sequence[Change]]:
        while names:
            chunk, names = names[:CHUNK_RECORDS], names[CHUNK_RECORDS:]
            yield [Change(key, member) for key, member in chunk if member in self.sets[key]]
        yield [Change("", str(first_offset))]


def _new_core(_: CoreContext) -> MemberSets:
    return MemberSets()


MEMBER_SETS: Final[CoordinatorRegistration[Request, MemberSets]] = CoordinatorRegistration(
    topic=InternalTopic(
        name="__tidemill_toy",
        keys=TopicKeys(
            partition_count="offsets.topic.num.partitions",
            replication_factor="offsets.topic.replication.factor",
            segment_bytes="offsets.topic.segment.bytes",
        ),
    ),
    partition_for=lambda key, partition_count: sum(key.encode()) % partition_count,
    new_core=_new_core,
    rejection=lambda _, reason: Rejected(reason),
    key_type=KEY_TYPE,
)
