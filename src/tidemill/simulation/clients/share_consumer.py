"""A member of a share group on virtual time: it fetches records, treats them at random, and checks what it gets."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tidemill.batches.batch import spans
from tidemill.batches.records import read_records
from tidemill.model import errors
from tidemill.model.topic import TopicId
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.share_session import FINAL_EPOCH, INITIAL_EPOCH
from tidemill.simulation.clients.client import Address, Client, Connection, Unreachable
from tidemill.simulation.clients.share_history import SAFE_LOCK_S, ShareHistory
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.wire.messages import find_coordinator, share_acknowledge, share_fetch, share_group_heartbeat

HEARTBEAT_S: Final = 1.0
FETCH_MS: Final = (300, 300, 300, 5_000)  # most fetches are short, so that the member sends heartbeats and acknowledges
RECORDS_MAX: Final = 20
REJECT_SHARE: Final = 0.05
RELEASE_SHARE: Final = 0.12
GAP_SHARE: Final = 0.03  # of records that are acknowledged as if they had no data, which delivers them again
KEEP_SHARE: Final = 0.2  # of records that are not acknowledged, so that their locks may expire
DISCONNECT_SHARE: Final = 0.02  # of fetches before which the member loses its connection to the broker
CLOSE_SHARE: Final = 0.02  # of fetches before which the member closes its session
RENEW_SHARE: Final = 0.1  # of fetches before which the member renews some of its locks

# Answers after which the member looks for the leader or opens a new session.
_LOST: Final = frozenset({
    errors.NOT_LEADER_OR_FOLLOWER,
    errors.OFFSET_NOT_AVAILABLE,
    errors.UNKNOWN_TOPIC_OR_PARTITION,
    errors.UNKNOWN_TOPIC_ID,
    errors.KAFKA_STORAGE_ERROR,
    errors.SHARE_SESSION_NOT_FOUND,
    errors.INVALID_SHARE_SESSION_EPOCH,
})  # fmt: skip
# What a heartbeat may be answered while coordinators move.
_LATER: Final = frozenset({
    errors.NOT_COORDINATOR,
    errors.COORDINATOR_NOT_AVAILABLE,
    errors.COORDINATOR_LOAD_IN_PROGRESS,
    errors.KAFKA_STORAGE_ERROR,
    errors.REQUEST_TIMED_OUT,
})  # fmt: skip
_REJOIN: Final = frozenset({errors.UNKNOWN_MEMBER_ID, errors.FENCED_MEMBER_EPOCH, errors.GROUP_ID_NOT_FOUND})


@dataclass(slots=True)
class _Session:
    """The member's session with one broker."""

    connection: Connection
    epoch: int = INITIAL_EPOCH
    partitions: set[int] = field(default_factory=set)
    held: dict[int, dict[int, "_Lease"]] = field(default_factory=dict)  # partition → offset that is not acknowledged


class _Lease(NamedTuple):
    """A record that the member holds."""

    asked_at: float  # when the fetch, or the last renewal, was sent: before the lock began
    term: int | None  # of the leader, if it was the newest one until the record had arrived
    delivery_count: int = 0


class _Decision(NamedTuple):
    offset: int
    kind: Acknowledgement
    lease: _Lease


_Chosen = dict[int, list[_Decision]]
"""The acknowledgements in one request, by partition."""


class ShareConsumer:
    def __init__(
        self, client: Client, history: ShareHistory, group: str, topic: str, *, reject_share: float = REJECT_SHARE
    ) -> None:
        """`reject_share` is the fraction of records that the member rejects; it accepts fewer for that."""
        self._reject_share = reject_share
        self._client = client
        self._history = history
        self._group = group
        self._topic = topic
        self._epoch = 0
        self._assigned: Sequence[int] = ()
        self._topic_id: TopicId | None = None
        self._coordinator: Address | None = None
        self._heartbeat_at = 0.0
        self._sessions: dict[Address, _Session] = {}
        self.accepts_everything = False  # from the end of the faults on
        self.is_stopping = False

    async def run(self) -> None:
        client = self._client
        while not self.is_stopping:
            if client.loop.time() >= self._heartbeat_at:
                await self._heartbeat()
            by_broker: dict[Address, set[int]] = {}
            for number in self._assigned:
                leader = await client.leader(self._topic, number)
                by_broker.setdefault(leader.address, set()).add(number)
            if not by_broker:
                await client.back_off()
            for address, numbers in by_broker.items():
                try:
                    is_served = await self._fetch(address, numbers)
                except Unreachable:
                    is_served = False
                if not is_served:
                    self._sessions.pop(address, None)
                    for number in numbers:
                        client.forget_leader(self._topic, number)
                    await client.back_off()

    # Membership.

    async def _heartbeat(self) -> None:
        client = self._client
        self._heartbeat_at = client.loop.time() + HEARTBEAT_S
        request = share_group_heartbeat.Request(
            group_id=self._group,
            member_id=client.name,
            member_epoch=self._epoch,
            subscribed_topic_names=None if self._epoch else [self._topic],
        )
        try:
            if self._coordinator is None:
                await self._find_coordinator()
                if self._coordinator is None:
                    return
            answer = await (await client.connection(self._coordinator)).ask(request)
        except Unreachable:
            self._coordinator = None
            return
        if answer.error_code in _LATER:
            self._coordinator = None
        elif answer.error_code in _REJOIN:
            self._epoch, self._assigned, self._heartbeat_at = 0, (), 0.0
        elif answer.error_code:
            raise InvariantViolation(f"{client.name}: a heartbeat is answered {errors.name(answer.error_code)}")
        else:
            self._epoch = answer.member_epoch
            if answer.assignment is not None:
                assigned = answer.assignment.topic_partitions
                self._assigned = [number for it in assigned for number in it.partitions]
                self._topic_id = assigned[0].topic_id if assigned else self._topic_id

    async def _find_coordinator(self) -> None:
        answer = await self._client.ask_once(find_coordinator.Request(coordinator_keys=[self._group]))
        (found,) = answer.coordinators
        if not found.error_code:
            self._coordinator = (found.host, found.port)

    # Records.

    async def _fetch(self, address: Address, numbers: set[int]) -> bool:
        """Fetch once from a broker, and acknowledge.  Return whether the broker serves the partitions."""
        session = self._sessions.get(address)
        if session is None or not session.connection.is_open:
            session = self._sessions[address] = _Session(await self._client.connection(address))
        elif session.epoch and not await self._interrupt(address, session):
            return False
        asked_at = self._client.loop.time()
        before = {number: self._history.term(address, number) for number in numbers}
        accepted = {number: self._history.accepted_before(number) for number in numbers}
        acknowledged = self._decide(session) if session.epoch and self._client.random.random() < 0.5 else {}
        answer = await session.connection.ask(self._fetch_request(session, numbers, acknowledged))
        if answer.error_code:
            return self._check_lost("ShareFetch", answer.error_code)
        session.epoch += 1
        session.partitions = set(numbers)
        is_served = True
        for topic in answer.responses:
            for partition in topic.partitions:
                number = partition.partition_index
                if number in acknowledged:
                    code = partition.acknowledge_error_code
                    self._acknowledged(address, number, acknowledged[number], code, asked_at)
                if partition.error_code:
                    is_served = self._check_lost("ShareFetch", partition.error_code)
                term = before.get(number)
                is_newest = term is not None and term == self._history.term(address, number)
                lease = _Lease(asked_at, term if is_newest else None)
                self._take(session, partition, lease, accepted[number] if is_newest else None)
        if is_served and self._client.random.random() < 0.7:
            is_served = await self._acknowledge(address, session)
        return is_served

    async def _interrupt(self, address: Address, session: _Session) -> bool:
        """
        Sometimes renew locks, or end the session.  Return False if the session has ended, which releases what it holds.
        """
        drawn = self._client.random.random()
        if drawn < DISCONNECT_SHARE:
            session.connection.close("the member disconnects")
            return False
        if drawn < DISCONNECT_SHARE + CLOSE_SHARE:
            await self._acknowledge(address, session, is_last=True)
            return False
        if drawn < DISCONNECT_SHARE + CLOSE_SHARE + RENEW_SHARE:
            return await self._renew(address, session)
        return True

    def _fetch_request(self, session: _Session, numbers: set[int], acknowledged: _Chosen) -> share_fetch.Request:
        partition = share_fetch.Request.Topic.Partition
        assert self._topic_id is not None, "a member with partitions knows the topic's id"
        added = numbers - session.partitions | acknowledged.keys()
        return share_fetch.Request(
            group_id=self._group,
            member_id=self._client.name,
            share_session_epoch=session.epoch,
            max_wait_ms=self._client.random.choice(FETCH_MS),
            min_bytes=1,
            max_records=self._client.random.choice((1, 5, RECORDS_MAX)),
            batch_size=RECORDS_MAX,
            share_acquire_mode=self._client.random.choice((0, 1)),
            topics=[
                share_fetch.Request.Topic(
                    topic_id=self._topic_id,
                    partitions=[
                        partition(
                            partition_index=number,
                            acknowledgement_batches=[
                                partition.AcknowledgementBatch(
                                    first_offset=offset, last_offset=offset, acknowledge_types=[kind]
                                )
                                for offset, kind, _ in acknowledged.get(number, ())
                            ],
                        )
                        for number in sorted(added)
                    ],
                )
            ]
            if added
            else [],
            forgotten_topics_data=[
                share_fetch.Request.ForgottenTopic(
                    topic_id=self._topic_id, partitions=sorted(session.partitions - numbers)
                )
            ]
            if session.partitions - numbers
            else [],
        )

    def _take(self, session: _Session, partition: Any, lease: _Lease, accepted_before: frozenset[int] | None) -> None:
        """Check and keep the records of one partition."""
        number, name = partition.partition_index, self._client.name
        records = memoryview(bytes(partition.records or b""))
        found = [record for span in spans(records) for record in read_records(records, span.position)]
        present = [record.offset for record in found]
        keys = {record.offset: record.key for record in found}
        end = -1
        for acquired in partition.acquired_records:
            offsets = range(acquired.first_offset, acquired.last_offset + 1)
            if not offsets or offsets.start <= end:
                raise InvariantViolation(f"{name}: the acquired ranges of partition {number} do not ascend")
            end = offsets[-1]
            missing = set(offsets).difference(present)
            if missing:
                raise InvariantViolation(f"{name}: acquired {sorted(missing)} of partition {number} without records")
            for offset, key in ((offset, keys[offset]) for offset in offsets):
                if key is not None and lease.term is not None:
                    self._history.delivered_with_key(name, number, offset, key)
            count = acquired.delivery_count
            self._history.delivered(name, number, offsets, count, accepted_before, term=lease.term)
            if lease.term is not None:
                now = self._client.loop.time()
                self._history.check_delay(number, offsets, count, term=lease.term, now=now)
                self._history.check_wait(name, number, term=lease.term, asked_at=lease.asked_at, now=now)
            held = dict.fromkeys(offsets, lease._replace(delivery_count=count))
            session.held.setdefault(number, {}).update(held)
        if present != sorted(set(present)):
            raise InvariantViolation(f"{name}: the records of partition {number} do not ascend: {present}")

    # Acknowledgements.

    def _decide(self, session: _Session) -> _Chosen:
        """Choose acknowledgements for some of the held records, and take these from what is held."""
        random = self._client.random
        chosen: _Chosen = {}
        for number, held in session.held.items():
            for offset, lease in sorted(held.items()):
                drawn = random.random()
                if self.accepts_everything or drawn < 1 - KEEP_SHARE - GAP_SHARE - RELEASE_SHARE - self._reject_share:
                    kind = Acknowledgement.ACCEPT
                    self._history.accepting.add((number, offset))
                elif drawn < 1 - KEEP_SHARE - GAP_SHARE - self._reject_share:
                    kind = Acknowledgement.RELEASE
                elif drawn < 1 - KEEP_SHARE - self._reject_share:
                    kind = Acknowledgement.GAP
                elif drawn < 1 - KEEP_SHARE:
                    kind = Acknowledgement.REJECT
                else:
                    continue  # the lock may expire
                if kind in (Acknowledgement.ACCEPT, Acknowledgement.REJECT):
                    self._history.finishing.add((number, offset))
                chosen.setdefault(number, []).append(_Decision(offset, kind, lease))
        for number, decisions in chosen.items():
            for decision in decisions:
                del session.held[number][decision.offset]
        return chosen

    async def _acknowledge(self, address: Address, session: _Session, *, is_last: bool = False) -> bool:
        """Acknowledge some of the held records.  Return whether the broker has the session.  `is_last`: close it."""
        chosen = self._decide(session)
        if not chosen and not is_last:
            return True
        asked_at = self._client.loop.time()
        topic = share_acknowledge.Request.Topic
        answer = await session.connection.ask(
            share_acknowledge.Request(
                group_id=self._group,
                member_id=self._client.name,
                share_session_epoch=FINAL_EPOCH if is_last else session.epoch,
                topics=self._acknowledgements(topic, chosen),
            )
        )
        return self._answered("ShareAcknowledge", address, session, chosen, answer, asked_at)

    async def _renew(self, address: Address, session: _Session) -> bool:
        """Renew the locks of some of the held records.  Return whether the broker has the session."""
        chosen: _Chosen = {}
        for number, held in session.held.items():
            for offset, lease in sorted(held.items()):
                if self._client.random.random() < 0.5:
                    decision = _Decision(offset, Acknowledgement.RENEW, lease)
                    chosen.setdefault(number, []).append(decision)
        if not chosen:
            return True
        asked_at = self._client.loop.time()
        answer = await session.connection.ask(
            share_fetch.Request(
                group_id=self._group,
                member_id=self._client.name,
                share_session_epoch=session.epoch,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=0,
                max_records=0,
                batch_size=RECORDS_MAX,
                is_renew_ack=True,
                topics=self._acknowledgements(share_fetch.Request.Topic, chosen),
                forgotten_topics_data=[],
            )
        )
        return self._answered("a renewal", address, session, chosen, answer, asked_at)

    def _acknowledgements(self, topic: Any, chosen: _Chosen) -> list[Any]:
        """Return the topics of a request with acknowledgements.  `topic` is the message's class for them."""
        if not chosen:
            return []
        assert self._topic_id is not None, "a member that holds records knows the topic's id"
        batch = topic.Partition.AcknowledgementBatch
        partitions = [
            topic.Partition(
                partition_index=number,
                acknowledgement_batches=[
                    batch(first_offset=offset, last_offset=offset, acknowledge_types=[kind]) for offset, kind, _ in ones
                ],
            )
            for number, ones in chosen.items()
        ]
        return [topic(topic_id=self._topic_id, partitions=partitions)]

    def _answered(
        self, what: str, address: Address, session: _Session, chosen: _Chosen, answer: Any, asked_at: float
    ) -> bool:
        """Note the answer to a request that has only acknowledgements.  Return whether the broker has the session."""
        if answer.error_code:
            return self._check_lost(what, answer.error_code)
        session.epoch += 1
        for topic in answer.responses:
            for it in topic.partitions:
                number = it.partition_index
                code = it.acknowledge_error_code if isinstance(answer, share_fetch.Response) else it.error_code
                self._acknowledged(address, number, chosen[number], code, asked_at)
                if not code:
                    self._renewed(address, session, number, chosen[number], asked_at)
        return True

    def _renewed(
        self, address: Address, session: _Session, number: int, decisions: list[_Decision], asked_at: float
    ) -> None:
        """Note that the locks that were renewed by some of these acknowledgements begin at `asked_at`."""
        term = self._history.term(address, number)
        for offset, kind, lease in decisions:
            if kind == Acknowledgement.RENEW and term is not None and lease.term == term:
                session.held[number][offset] = lease._replace(asked_at=asked_at)
                self._history.renewed += 1

    def _acknowledged(
        self, address: Address, number: int, decisions: list[_Decision], code: int, asked_at: float
    ) -> None:
        """Note the answer to acknowledgements of one partition, which were sent at `asked_at`."""
        refused = (errors.INVALID_RECORD_STATE, errors.INVALID_REQUEST)  # the lock has expired, or the leader has moved
        if code and code not in refused:
            self._check_lost("an acknowledgement", code)
        self._history.outcomes[errors.name(code)] += 1
        if not code:
            accepted = {(number, it.offset) for it in decisions if it.kind == Acknowledgement.ACCEPT}
            self._history.accepted |= accepted
        term, now = self._history.term(address, number), self._client.loop.time()
        if not code and term is not None:
            for offset, kind, lease in decisions:
                if kind == Acknowledgement.RELEASE and lease.term == term:
                    self._history.released(number, offset, lease.delivery_count, term=term, asked_at=asked_at)
        is_held = term is not None and all(
            it.lease.term == term and now - it.lease.asked_at < SAFE_LOCK_S for it in decisions
        )
        if code in refused and is_held:
            raise InvariantViolation(
                f"{self._client.name}: an acknowledgement is answered {errors.name(code)}, although no lock can have "
                f"expired: {decisions}"
            )

    def _check_lost(self, what: str, code: int) -> bool:
        """Return False.  Raise InvariantViolation if a client would not know what to do about the error."""
        if code not in _LOST:
            raise InvariantViolation(f"{self._client.name}: {what} is answered {errors.name(code)}")
        return False
