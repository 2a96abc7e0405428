"""One consumer group of the classic protocol: its members and its current generation.

A group is EMPTY until a member joins.  A join, a leave or the loss of a member starts a rebalance: while the group is
PREPARING, every member has to join again.  When all have joined, or the rebalance timeout has passed, a new generation
starts.  The group is then COMPLETING until the leader, one of its members, has sent the assignments of all members;
after that it is STABLE.  The modules `joining` and `membership` handle members' requests, and `rebalance` runs
rebalances; this module holds the group's state and its transition table.

The group's state in this module is soft state: only complete generations are logged (module `state`), and a new
coordinator starts from the last logged generation.
"""

from dataclasses import dataclass
from enum import StrEnum

from tidemill.coordinator.group.log_records import GroupMetadata, LoggedMember
from tidemill.coordinator.group.responses import JoinedMember
from tidemill.coordinator.group.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from tidemill.coordinator.record_fields import BadRecord
from tidemill.coordinator.result import Key, Waiter
from tidemill.model import errors


class GroupState(StrEnum):
    EMPTY = "Empty"  # no members; committed offsets may remain
    PREPARING_REBALANCE = "PreparingRebalance"  # waiting for every member to join again
    COMPLETING_REBALANCE = "CompletingRebalance"  # waiting for the leader's assignment
    STABLE = "Stable"  # every member has, or can fetch, its assignment
    DEAD = "Dead"  # deleted


class Signal(StrEnum):
    REBALANCE = "a member joined, changed, left or was lost"
    JOINED = "all expected members have joined"
    EMPTIED = "joining ended without members"
    ASSIGNED = "the leader sent the assignment"
    DELETED = "the group was deleted or has expired"


S, G = GroupState, Signal

# Every legal transition.  Invalid requests are rejected earlier, so a pair that is not in the table is a bug.
TRANSITIONS: dict[tuple[GroupState, Signal], GroupState] = {
    (S.EMPTY, G.REBALANCE): S.PREPARING_REBALANCE,
    (S.EMPTY, G.DELETED): S.DEAD,
    (S.PREPARING_REBALANCE, G.JOINED): S.COMPLETING_REBALANCE,
    (S.PREPARING_REBALANCE, G.EMPTIED): S.EMPTY,
    (S.COMPLETING_REBALANCE, G.ASSIGNED): S.STABLE,
    (S.COMPLETING_REBALANCE, G.REBALANCE): S.PREPARING_REBALANCE,
    (S.STABLE, G.REBALANCE): S.PREPARING_REBALANCE,
}


@dataclass(slots=True, kw_only=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # (name, metadata), in order of preference
    assignment: bytes = b""
    is_new: bool = False  # the member's first JoinGroup has not been answered yet, so it cannot send heartbeats
    join_waiter: Waiter | None = None  # set only while PREPARING
    sync_waiter: Waiter | None = None  # set only while COMPLETING

    def metadata(self, protocol_name: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    @property
    def is_session_suspended(self) -> bool:
        """Return whether the session cannot expire now.  A member sends no heartbeats while one of its requests is
        parked.

        A new member's session is never suspended, because its client may have given up on the first JoinGroup.
        """
        return not self.is_new and (self.join_waiter is not None or self.sync_waiter is not None)


class ClassicGroup:
    __slots__ = (
        "_protocol_counts",
        "generation",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "joined_since_delay",
        "joins_parked",
        "leader",
        "members",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_since_ms",
        "static_members",
        "subscribed_topics",
    )

    def __init__(self, group_id: str, state_since_ms: int) -> None:
        self.group_id = group_id
        self.state = S.EMPTY
        self.previous_state = S.DEAD
        self.state_since_ms = state_since_ms  # -1: unknown (the record was written by Kafka before 2.1)
        self.generation = 0  # never decreases
        self.protocol_type: str | None = None  # None: no member ever joined; only simple consumers committed offsets
        self.protocol_name: str | None = None
        self.leader: str | None = None  # the leader's member id; None while the group has no members
        self.members: dict[str, Member] = {}  # in the order in which they joined
        self.static_members: dict[str, str] = {}  # instance id → member id
        self.pending_joins: dict[str, None] = {}  # assigned ids whose clients have not joined with them yet (KIP-394)
        self.pending_syncs: dict[str, None] = {}  # members of this generation that have not sent SyncGroup yet
        self.joins_parked = 0  # members with a join waiter
        self.subscribed_topics: frozenset[str] | None = None  # topics to which members subscribe; None: unknown
        self._protocol_counts: dict[str, int] = {}  # protocol → number of members that support it
        self.joined_since_delay = False  # a new member joined during the current initial delay
        self.initial_delay_ms = 0  # > 0 during the initial delay of an empty group's rebalance
        self.initial_remaining_ms = 0  # by how much the initial delay may still be extended

    @classmethod
    def from_log(cls, group_id: str, logged: GroupMetadata) -> "ClassicGroup":
        group = cls(group_id, logged.state_since_ms)
        group.generation = logged.generation
        group.protocol_type = logged.protocol_type or None
        group.protocol_name = logged.protocol_name
        for member in logged.members:
            loaded = Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=(
                    member.session_timeout_ms if member.rebalance_timeout_ms == -1 else member.rebalance_timeout_ms
                ),
                session_timeout_ms=member.session_timeout_ms,
                protocols=((logged.protocol_name or "", member.subscription),),
                assignment=member.assignment,
            )
            group.add(loaded, logged.protocol_type)
        if group.members:
            group.state = S.STABLE
            group.leader = logged.leader if logged.leader in group.members else next(iter(group.members))
        group.subscribed_topics = group._read_subscriptions()
        return group

    def logged(self) -> GroupMetadata:
        """Return the part of the group's state that is logged."""
        return GroupMetadata(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol_name=self.protocol_name,
            leader=self.leader,
            state_since_ms=self.state_since_ms,
            members=tuple(
                LoggedMember(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=member.assignment,
                )
                for member in self.members.values()
            ),
        )

    # Keys that identify the group's deadlines.

    @property
    def join_key(self) -> Key:
        return ("join", self.group_id)

    @property
    def sync_key(self) -> Key:
        return ("sync", self.group_id)

    def session_key(self, member_id: str) -> Key:
        return ("session", self.group_id, member_id)

    # State transitions.

    def transition(self, signal: Signal, now_ms: int) -> None:
        self.previous_state, self.state = self.state, TRANSITIONS[self.state, signal]
        self.state_since_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Start a generation: wait for the leader's assignment, or become EMPTY if the group has no members."""
        self.generation += 1
        self.pending_syncs.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._read_subscriptions()
        self.transition(G.JOINED if self.members else G.EMPTIED, now_ms)

    # Adding, replacing and removing members.

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, "an instance has at most one member"
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self.pending_joins.pop(member.member_id, None)
        self._count_protocols(member, 1)
        self.joins_parked += member.join_waiter is not None

    def remove(self, member_id: str) -> Member | None:
        """Remove a member, or an assigned member id that no client has used yet.  Return the removed member, or None.

        The caller must answer the member's parked requests.
        """
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count_protocols(member, -1)
        self.joins_parked -= member.join_waiter is not None
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_static(self, old: Member, member_id: str) -> None:
        """Give a static member a new member id; it keeps its assignment and its leadership of the group."""
        assert old.join_waiter is None and old.sync_waiter is None and old.instance_id is not None
        del self.members[old.member_id]
        self.pending_syncs.pop(old.member_id, None)
        if self.leader == old.member_id:
            self.leader = member_id
        old.member_id = member_id
        old.is_new = False  # a known instance is not new, so its session is suspended while its JoinGroup is parked
        self.members[member_id] = old
        self.static_members[old.instance_id] = member_id

    def change_protocols(self, member: Member, protocols: tuple[tuple[str, bytes], ...]) -> None:
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)

    def park_join(self, member: Member, waiter: Waiter) -> None:
        self.joins_parked += member.join_waiter is None
        member.join_waiter = waiter

    def take_join_waiter(self, member: Member) -> Waiter | None:
        waiter, member.join_waiter = member.join_waiter, None
        self.joins_parked -= waiter is not None
        return waiter

    # Queries, which do not change the group.

    def member_problem(self, member_id: str, instance_id: str | None) -> int:
        """Return NONE if (member id, instance id) identifies a member of the group, otherwise the error code."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return errors.UNKNOWN_MEMBER_ID
            if current != member_id:
                return errors.FENCED_INSTANCE_ID
        return errors.NONE if member_id in self.members else errors.UNKNOWN_MEMBER_ID

    @property
    def all_joined(self) -> bool:
        return self.joins_parked == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """Return whether a member with these protocols can join.

        An empty group accepts any protocol type with at least one protocol.  Otherwise, the protocol type must be the
        group's, and at least one of the protocols must be supported by all members.
        """
        if self.state is S.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and any(
            self._protocol_counts.get(name, 0) == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Return the protocol with the most votes.

        Each member votes for the first protocol of its list that all members support; a tie goes to the protocol that
        was voted for first.
        """
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if self._protocol_counts[name] == len(self.members))
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    @property
    def is_consumer(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic.

        A consumer group with member metadata that cannot be decoded counts as subscribed to every topic.
        """
        return self.is_consumer if self.subscribed_topics is None else topic in self.subscribed_topics

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        )

    def check_invariants(self) -> None:
        members = self.members.values()
        assert all(member_id == member.member_id for member_id, member in self.members.items())
        assert self.joins_parked == sum(member.join_waiter is not None for member in members)
        assert self.static_members == {m.instance_id: m.member_id for m in members if m.instance_id is not None}
        assert not self.pending_joins.keys() & self.members.keys(), "an id is pending or a member, not both"
        assert self.pending_syncs.keys() <= self.members.keys()
        assert (self.leader in self.members) if self.members else self.leader is None, (
            "a group with members has one of them as its leader"
        )
        counts: dict[str, int] = {}
        for member in members:
            for name, _ in dict(member.protocols).items():
                counts[name] = counts.get(name, 0) + 1
        assert counts == {name: count for name, count in self._protocol_counts.items() if count}
        assert not self.members or len(self.members) in counts.values(), "all members support a common protocol"
        if self.state is S.EMPTY:
            assert not self.members and self.protocol_name is None
        if self.state in (S.COMPLETING_REBALANCE, S.STABLE):
            assert self.members and self.protocol_name is not None
        if self.state is not S.PREPARING_REBALANCE:
            assert not self.joins_parked, "joins are parked only while a rebalance is being prepared"
        if self.state is not S.COMPLETING_REBALANCE:
            assert all(member.sync_waiter is None for member in members), (
                "syncs are parked only until the leader's assignment"
            )

    def _count_protocols(self, member: Member, step: int) -> None:
        for name in dict(member.protocols):
            self._protocol_counts[name] = self._protocol_counts.get(name, 0) + step
            if not self._protocol_counts[name]:
                del self._protocol_counts[name]

    def _read_subscriptions(self) -> frozenset[str] | None:
        if not self.is_consumer:
            return None
        if not self.members:
            return frozenset()
        try:
            topics = [subscribed_topics(m.metadata(self.protocol_name)) for m in self.members.values()]
        except BadRecord:
            return None  # Not an error: only the members' assignor has to understand the metadata.
        return frozenset().union(*topics)
