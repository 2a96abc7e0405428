"""Peers: the connections to other brokers.  All messages to one peer in one turn of the loop are sent in one frame.

    shards ─▶ send ─┐                                         ┌─▶ handler.receive
    leader table ───┼─▶    end of the turn  ─▶ link ═══▶ link ┼─▶ leader table
    requests ───────┘                                         └─▶ handler.answer

A peer is alive while its heartbeats arrive: they show that its event loop runs and its journal makes rows durable.  As
soon as its connection is lost, a peer is no longer alive.  All times come from `broker.stall_tolerant_clock`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from tidemill.broker.peers.leader_table import LeaderTable
from tidemill.broker.peers.replica_lag import Lagging
from tidemill.broker.peers.unanswered import NO_CONTROLLER, Unanswered
from tidemill.metadata.feature_levels import OLDEST
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.clock import Clock
from tidemill.model.shard import ShardId
from tidemill.peer import frame as frames
from tidemill.peer.hello import Hello
from tidemill.peer.link import Buffer, Link, Links
from tidemill.peer.load import Load
from tidemill.raft import message_codec
from tidemill.raft.messages import Message
from tidemill.shard.pending import OUTCOME_UNKNOWN
from tidemill.wire import schema

SILENT_MS: Final = 2_000  # a peer that sends no heartbeat for this time is no longer alive
GIVEN_UP_MS: Final = 10_000  # a connection on which nothing arrives for this time is closed and reopened
ASKED_MS: Final = 30_000  # an unanswered request fails after this time: its response may have been dropped
LEADERS_MAX: Final = 4_000  # entries of the leader table in one section: 64 KiB
FRAME_BYTES: Final = 4 << 20  # a frame of this size is sent before the end of the turn
SLICED_FROM: Final = 100  # with so many links, the work of a tick is divided: it would hold the event loop for too long
SLICE: Final = 64  # the links of one part; the next turn of the event loop has the next part

Answered = Callable[[Any | Unanswered], None]
Respond = Callable[[Sequence[Buffer]], None]


class _Asked(NamedTuple):
    """A request that the peer has not answered yet."""

    api: schema.Api
    version: int
    answered: Answered
    until_ms: int


class _Peer:
    """The state of the connection to one peer."""

    __slots__ = (
        "asked",
        "correlation",
        "delivery",
        "flags",
        "heard_at",
        "heartbeat_at",
        "lagging",
        "level",
        "link",
        "out",
        "out_bytes",
        "sent_version",
        "unheard",
    )

    def __init__(self, link: Link, now_ms: int, heartbeat_at: int | None) -> None:
        self.link = link
        self.heard_at = now_ms  # time of the last frame of any kind
        self.heartbeat_at = heartbeat_at  # time of the last heartbeat, possibly on an earlier connection
        self.sent_version = 0  # version of this broker's leader table that was last sent to the peer
        self.flags = frames.DRAINING  # from the last heartbeat; before that, no leadership is transferred to the peer
        # Out-of-sync replicas of the shards that the peer leads; None: not reported yet.
        self.lagging: frozenset[Lagging] | None = None
        self.unheard: frozenset[BrokerId] = (
            frozenset()
        )  # the brokers that the peer does not hear, from the last heartbeat
        self.level = OLDEST  # the highest feature level that the peer supports, from the last heartbeat
        self.out: list[Buffer] = []
        self.out_bytes = 0
        self.correlation = 0
        self.delivery = object()  # see `Peers.delivery`
        self.asked: dict[int, _Asked] = {}  # unanswered requests by correlation id, oldest first


class PeersOwner(Protocol):
    """The part of this broker that `Peers` uses."""

    @property
    def newest_level(self) -> int:
        """The highest feature level that this broker supports."""
        ...

    @property
    def is_syncing(self) -> bool:
        """Whether the journal is making rows durable.  If it is not, no peer may consider this broker alive."""
        ...

    @property
    def flags(self) -> int:
        """The flags in this broker's heartbeats (see `peer.frame`)."""
        ...

    @property
    def unheard(self) -> tuple[BrokerId, ...]:
        """The registered brokers that this broker does not hear."""
        ...

    def hello(self) -> Hello: ...

    def is_stranger(self, voter: ReplicaKey) -> bool:
        """Return whether the metadata has no broker with this id and directory."""
        ...

    def lagging(self) -> tuple[Lagging, ...]:
        """Return the out-of-sync replicas of the shards that this broker leads.  Called at each tick."""
        ...

    def leaders_changed(self) -> None:
        """Called after a peer has sent its part of the leader table, or changes to it."""
        ...

    def clock_heard(self, voter: ReplicaKey, wall_ms: int) -> None:
        """Called for each heartbeat with the wall clock of a peer; `wall_ms` is its time when the heartbeat left."""
        ...

    def load_heard(self, voter: ReplicaKey, load: Load) -> None:
        """Called when a peer reports what it and the shards that it leads use."""
        ...


class PeerHandler(Protocol):
    """Handles messages from peers and changes in the state of their connections."""

    def receive(self, sender: ReplicaKey, shard_id: ShardId, message: Message) -> None:
        """Deliver a message to this broker's replica of a shard."""
        ...

    def answer(self, link: Link, data: memoryview, respond: Respond) -> None:
        """
        Handle a request and pass the response to `respond`, now or later.  Raises ProtocolError, which closes the link,
        if the request cannot be decoded.
        """
        ...

    def peer_reconnected(self, voter: ReplicaKey) -> None: ...

    def peer_restarted(self, voter: ReplicaKey) -> None:
        """Called before `peer_reconnected` if the peer is running as a new process."""
        ...

    def peer_lost(self) -> None:
        """Called when the connection to a peer, possibly a leader, is lost."""
        ...


class Peers:
    """The connections of this broker to its peers; implements `peer.link.LinkOwner`."""

    def __init__(
        self,
        owner: PeersOwner,
        leaders: LeaderTable,
        *,
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._owner = owner
        self.hello = owner.hello
        self.links: Links | None = None
        self._handler: PeerHandler  # set by `attach`
        self._leaders = leaders
        self._clock = clock
        self._call_soon = call_soon
        self._peers: dict[Link, _Peer] = {}
        self._by_key: dict[ReplicaKey, _Peer] = {}
        self._to_silent: list[Buffer] = []  # the heartbeats of the last tick
        self._to_heard: list[Buffer] = []
        self._to_strangers: list[Buffer] = []
        self._lives: dict[ReplicaKey, int] = {}  # the last known incarnation of each peer
        self._lost: dict[ReplicaKey, int] = {}  # time of the last heartbeat of each peer whose connection is lost
        self._queued: list[_Peer] = []  # the peers whose sections leave at the end of the turn
        self._is_scheduled = False
        self._to_tick: dict[Link, _Peer] = {}  # the links whose part of the last tick has not been done yet
        self._is_slice_due = False

    def attach(self, handler: PeerHandler) -> None:
        """
        Set the handler.  Called once, before there are links.  The handler needs the complete broker, so it is created
        later.
        """
        self._handler = handler

    # Methods that report the state of the peers.

    def is_alive(self, voter: ReplicaKey) -> bool:
        peer = self._by_key.get(voter)
        return peer is not None and self._is_heard(peer)

    def _is_heard(self, peer: _Peer) -> bool:
        return peer.heartbeat_at is not None and self._clock.monotonic_ms() - peer.heartbeat_at <= SILENT_MS

    def may_lead(self, voter: ReplicaKey) -> bool:
        """Return whether the peer is alive and is not draining its leadership."""
        return self.is_alive(voter) and not self._by_key[voter].flags & frames.DRAINING

    def has_two_way_contact(self, voter: ReplicaKey) -> bool:
        """Return whether the peer is alive and considers this broker alive: messages arrive in both directions."""
        return self.is_alive(voter) and bool(self._by_key[voter].flags & frames.HEARS_RECEIVER)

    def has_controller_contact(self) -> bool:
        """Return whether a live peer reports contact with the controller."""
        return any(self._by_key[voter].flags & frames.HAS_CONTROLLER_CONTACT for voter in self.alive())

    def estranged(self) -> list[ReplicaKey]:
        """Return the live peers whose metadata does not have this broker, ascending."""
        return sorted(it for it in self.alive() if self._by_key[it].flags & frames.RECEIVER_IS_STRANGER)

    def was_alive(self, voter: ReplicaKey, within_ms: int) -> bool:
        """Return whether the peer's last heartbeat is at most `within_ms` old, even if its connection is lost."""
        heartbeat_at = self._heartbeat_of(voter)
        return heartbeat_at is not None and self._clock.monotonic_ms() - heartbeat_at <= within_ms

    def _heartbeat_of(self, voter: ReplicaKey) -> int | None:
        """Return the time of the peer's last heartbeat on any connection."""
        peer = self._by_key.get(voter)
        return self._lost.get(voter) if peer is None else peer.heartbeat_at

    def lagging(self, leader: ReplicaKey) -> frozenset[Lagging] | None:
        """
        Return the out-of-sync replicas of the shards that `leader` leads, as it last reported them; None if it has not
        reported them yet.
        """
        peer = self._by_key.get(leader)
        return None if peer is None else peer.lagging

    def level(self, voter: ReplicaKey) -> int:
        """Return the highest feature level that the peer supports, as it last reported it."""
        peer = self._by_key.get(voter)
        return OLDEST if peer is None else peer.level

    def address(self, voter: ReplicaKey) -> str:
        """Return the address of the peer's listener, as its process says; empty if there is no connection."""
        peer = self._by_key.get(voter)
        return "" if peer is None else peer.link.hello.address

    def unheard_by(self, voter: ReplicaKey) -> frozenset[BrokerId]:
        """Return the registered brokers that the peer does not hear, as it last reported them."""
        peer = self._by_key.get(voter)
        return frozenset() if peer is None else peer.unheard

    def heartbeat_age_ms(self, voter: ReplicaKey) -> int | None:
        """Return the age of the peer's last heartbeat; None if there is no connection or no heartbeat yet."""
        peer = self._by_key.get(voter)
        heartbeat_at = None if peer is None else peer.heartbeat_at
        return None if heartbeat_at is None else self._clock.monotonic_ms() - heartbeat_at

    def alive(self) -> frozenset[ReplicaKey]:
        heard_since_ms = self._clock.monotonic_ms() - SILENT_MS
        return frozenset(
            voter
            for voter, peer in self._by_key.items()
            if peer.heartbeat_at is not None and peer.heartbeat_at >= heard_since_ms
        )

    def send(self, shard_id: ShardId, to: ReplicaKey, message: Message) -> None:
        peer = self._by_key.get(to)
        if peer is not None:
            self._put(peer, frames.encode_message(shard_id, message_codec.encode(message)))

    def delivery(self, voter: ReplicaKey) -> object | None:
        """
        Return an object that stays the same as long as everything that was sent to the peer arrives in order; None if
        there is no connection.  When the object has changed, sections may have been lost.
        """
        peer = self._by_key.get(voter)
        return None if peer is None else peer.delivery

    def send_load(self, voter: ReplicaKey, load: Load) -> None:
        """Send figures to the controller, whose feature level must be at least ELASTIC_CLUSTER."""
        peer = self._by_key.get(voter)
        if peer is not None:
            self._put(peer, frames.encode_load_section(load))

    def ask(
        self, voter: ReplicaKey, api: schema.Api, request: schema.Message, answered: Answered, *, version: int = 0
    ) -> bool:
        """
        Send a request.  `answered` is called once: with the response, with NO_CONTROLLER if the request is for the
        controller and the peer is not the controller, or with OUTCOME_UNKNOWN if no response arrives.  Return False,
        without calling `answered`, if there is no connection.
        """
        peer = self._by_key.get(voter)
        if peer is None:
            return False
        parts = api.encode_request(version, request, 0)
        peer.correlation += 1
        peer.asked[peer.correlation] = _Asked(api, version, answered, self._clock.monotonic_ms() + ASKED_MS)
        self._put(peer, frames.encode_request(peer.correlation, parts))
        return True

    def tick(self) -> None:
        """
        Send heartbeats and close silent connections.  Called at each tick.  With many links, some of it is done in the
        next turns of the event loop.
        """
        heartbeat = frames.Heartbeat(
            self._leaders.version,
            self._owner.flags,
            self._owner.lagging(),
            self._clock.wall_ms(),
            unheard=self._owner.unheard,
            level=self._owner.newest_level,
        )
        self._to_silent = frames.encode_heartbeat(heartbeat)
        heartbeat.flags |= frames.HEARS_RECEIVER
        self._to_heard = frames.encode_heartbeat(heartbeat)
        heartbeat.flags |= frames.RECEIVER_IS_STRANGER
        self._to_strangers = frames.encode_heartbeat(heartbeat)
        # What is left of the tick before comes first, so that no link waits for ever.
        self._to_tick |= self._peers
        self._tick_some(SLICE if len(self._peers) >= SLICED_FROM else len(self._to_tick))

    def _tick_some(self, count: int) -> None:
        now_ms, is_syncing = self._clock.monotonic_ms(), self._owner.is_syncing
        for link in list(islice(self._to_tick, count)):
            peer = self._to_tick.pop(link)
            if now_ms - peer.heard_at > GIVEN_UP_MS:
                peer.link.close(f"nothing was heard for {GIVEN_UP_MS} ms")
                continue
            self._give_up(peer, now_ms)
            if is_syncing:
                self._put(peer, self._heartbeat_to(peer))
            if peer.link.hello.voter is not None:
                self._tell_leaders(peer)  # sends the leader table again if the link has dropped a frame
        if self._to_tick and not self._is_slice_due:
            self._is_slice_due = True
            self._call_soon(self._next_slice)

    def _heartbeat_to(self, peer: _Peer) -> list[Buffer]:
        if not self._is_heard(peer):
            return self._to_silent
        voter = peer.link.hello.voter
        return self._to_strangers if voter is not None and self._owner.is_stranger(voter) else self._to_heard

    def _next_slice(self) -> None:
        self._is_slice_due = False
        self._tick_some(SLICE)

    def tell_leaders(self) -> None:
        """Send the changes to this broker's part of the leader table to all peers."""
        for peer in self._by_key.values():
            self._tell_leaders(peer)

    def _tell_leaders(self, peer: _Peer) -> None:
        known, version = peer.sent_version, self._leaders.version
        if known == version:
            return
        peer.sent_version = version  # set first, because `_put` may send immediately and reset it
        changes = self._leaders.changes_since(known)
        pair_count = max(len(changes), known == 0)  # even an empty table is sent: the peer may know an older one
        for at in range(0, pair_count, LEADERS_MAX):
            page = tuple(changes[at : at + LEADERS_MAX])
            self._put(peer, frames.encode_leaders(frames.Leaders(known, version, page)))
            known = version  # the peer adds the next section to this one; a section from version 0 replaces the table

    # Methods that send: each link gets at most one frame per turn of the event loop, unless a frame becomes large.

    def _put(self, peer: _Peer, parts: Sequence[Buffer]) -> None:
        if not peer.out:
            self._queued.append(peer)
        peer.out += parts
        peer.out_bytes += sum(map(len, parts))
        if peer.out_bytes >= FRAME_BYTES:
            self._send(peer)
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        queued, self._queued = self._queued, []
        for peer in queued:
            if peer.out and self._peers.get(peer.link) is peer:
                self._send(peer)

    def _send(self, peer: _Peer) -> None:
        """
        Send the peer's queued sections as one frame.  If the link drops the frame, replicas repeat their messages,
        requests fail, and the leader table and the figures of the load are sent again.
        """
        out, peer.out, peer.out_bytes = peer.out, [], 0
        if not peer.link.send(out):
            peer.sent_version = 0
            peer.delivery = object()
            self._forget_asked(peer)

    def _give_up(self, peer: _Peer, now_ms: int) -> None:
        for correlation, asked in [*peer.asked.items()]:
            if now_ms < asked.until_ms:
                return
            del peer.asked[correlation]
            self._call_soon(partial(asked.answered, OUTCOME_UNKNOWN))

    def _forget_asked(self, peer: _Peer) -> None:
        """
        Fail all requests to `peer`, each in a separate turn, so that a callback that raises does not stop the others.
        """
        forgotten, peer.asked = peer.asked, {}
        for asked in forgotten.values():
            self._call_soon(partial(asked.answered, OUTCOME_UNKNOWN))

    # Methods of the protocol `LinkOwner`.

    def linked(self, link: Link) -> str | None:
        voter = link.hello.voter
        if voter == self.hello().voter:
            return "this is the same broker"
        incarnation = link.hello.incarnation
        heartbeat_at = None  # a new process has not sent a heartbeat yet
        if voter is not None and self._lives.get(voter) == incarnation:
            heartbeat_at = self._heartbeat_of(voter)
        peer = self._peers[link] = _Peer(link, self._clock.monotonic_ms(), heartbeat_at)
        if self._to_silent and self._owner.is_syncing:
            self._put(peer, self._to_silent)  # so that the peer considers this broker alive before the next tick
        if voter is not None:
            self._by_key[voter] = peer
            self._tell_leaders(peer)
            if self._lives.get(voter, incarnation) != incarnation:
                self._handler.peer_restarted(voter)
            self._lives[voter] = incarnation
            self._handler.peer_reconnected(voter)
        return None

    def received(self, link: Link, frame: memoryview) -> None:
        peer = self._peers.get(link)
        if peer is None:
            return
        peer.heard_at = self._clock.monotonic_ms()
        voter = link.hello.voter
        for section in frames.sections(frame):
            match section:
                case frames.Message(shard_id, data):
                    if voter is not None:
                        self._handler.receive(voter, shard_id, message_codec.decode(data))
                case frames.Leaders(from_version, _, terms):
                    if voter is not None:
                        self._leaders.apply_report(voter, terms, is_whole=not from_version)
                        self._owner.leaders_changed()
                case frames.Request(correlation, data):
                    self._answer(peer, correlation, data)
                case frames.Response(correlation, data):
                    asked = peer.asked.get(correlation)
                    if asked is not None:
                        outcome = _outcome(asked, data)
                        # Remove the request only after decoding: if decoding raises, `lost` must still find the request
                        # and fail it.
                        del peer.asked[correlation]
                        asked.answered(outcome)
                case frames.Heartbeat():
                    peer.heartbeat_at = peer.heard_at
                    peer.flags = section.flags
                    peer.lagging = frozenset(section.lagging)
                    peer.unheard = frozenset(section.unheard)
                    peer.level = section.level
                    if voter is not None and section.wall_ms is not None:
                        self._owner.clock_heard(voter, section.wall_ms)
                case Load():
                    if voter is not None:
                        self._owner.load_heard(voter, section)

    def _answer(self, peer: _Peer, correlation: int, data: memoryview) -> None:
        def respond(parts: Sequence[Buffer]) -> None:
            if peer.link in self._peers:
                self._put(peer, frames.encode_response(correlation, parts))

        self._handler.answer(peer.link, data, respond)

    def lost(self, link: Link, why: str) -> None:
        peer = self._peers.pop(link, None)
        if peer is None:
            return
        self._to_tick.pop(link, None)
        voter = link.hello.voter
        if voter is not None and self._by_key.get(voter) is peer:
            del self._by_key[voter]
            if peer.heartbeat_at is not None:
                self._lost[voter] = peer.heartbeat_at
            self._leaders.forget(voter)
            self._handler.peer_lost()
        self._forget_asked(peer)


def _outcome(asked: _Asked, data: memoryview) -> Any | Unanswered:
    """Decode a response.  An empty one means that the peer is not the controller and did not handle the request."""
    if not data:
        return NO_CONTROLLER
    return asked.api.decode_response(asked.version, data, asked.api.response_body_at(asked.version, data))
