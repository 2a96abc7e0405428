"""The connection to a peer, and the messages on it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.connection.peer_requests import FRAME_SIZE_BYTES
from tidemill.broker.peers.leader_table import LeaderTable
from tidemill.broker.peers.peers import ASKED_MS, FRAME_BYTES, SILENT_MS, SLICE, SLICED_FROM, Peers, Respond
from tidemill.broker.peers.replica_lag import Lagging
from tidemill.broker.peers.unanswered import NO_CONTROLLER
from tidemill.broker.stall_tolerant_clock import STEP_MS_MAX, StallTolerantClock
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.peer import create_internal_topic, join
from tidemill.peer import frame as frames
from tidemill.peer.hello import Hello
from tidemill.peer.link import Buffer, Link
from tidemill.peer.load import BrokerLoad, Load
from tidemill.raft.messages import Message
from tidemill.shard.pending import OUTCOME_UNKNOWN
from tidemill.wire.primitives import ProtocolError

ME, OTHER = (ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in (1, 2))


JOIN = join.Request(directory_id=bytes(16))


def encoded(response: join.Response) -> bytes:
    return b"".join(join.API.encode_response(0, response, 0))[FRAME_SIZE_BYTES:]


class HandLink:
    """A connection that keeps what is sent, and drops frames while it is full."""

    def __init__(self) -> None:
        self.hello = Hello(cluster_id="c", voter=OTHER, incarnation=2, address="h:2")
        self.frames: list[bytes] = []
        self.is_full = False

    def send(self, parts: Sequence[Buffer]) -> bool:
        if not self.is_full:
            self.frames.append(b"".join(parts))
        return not self.is_full

    def close(self, why: str) -> None:
        raise AssertionError(why)

    def leaders(self) -> dict[ShardId, int]:
        """Return the leaders in the leader tables that have been sent."""
        told: dict[ShardId, int] = {}
        for section in self.sections():
            if isinstance(section, frames.Leaders):
                told |= dict(section.terms)
        return told

    def sections(self) -> list[object]:
        """Return all sections that have been sent."""
        return [section for frame in self.frames for section in frames.sections(memoryview(frame))]


class RecordingHandler:
    """A `PeerHandler` that records which peers are reported as restarted."""

    def __init__(self) -> None:
        self.restarted: list[ReplicaKey] = []

    def receive(self, sender: ReplicaKey, shard_id: ShardId, message: Message) -> None: ...

    def answer(self, link: Link, data: memoryview, respond: Respond) -> None: ...

    def peer_reconnected(self, voter: ReplicaKey) -> None: ...

    def peer_restarted(self, voter: ReplicaKey) -> None:
        self.restarted.append(voter)

    def peer_lost(self) -> None: ...


class Linked:
    """The peers as seen by broker 1, which has a connection to broker 2."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.stall_tolerant_clock = StallTolerantClock(self.clock)
        self.turns: list[Callable[[], None]] = []
        self.out_of_sync: tuple[Lagging, ...] = ()
        self.clocks: list[tuple[ReplicaKey, int]] = []  # what has been heard of the clocks of peers
        self.loads: list[tuple[ReplicaKey, Load]] = []  # what has been heard of the load of peers
        self.is_syncing = True
        self.flags = 0
        self.newest_level = 3
        self.unheard: tuple[BrokerId, ...] = ()
        self.strangers: set[ReplicaKey] = set()
        self.table = LeaderTable(ME)
        self.peers = Peers(self, self.table, clock=self.stall_tolerant_clock, call_soon=self.turns.append)
        self.handler = RecordingHandler()
        self.peers.attach(self.handler)
        self.link = HandLink()
        self.peers.linked(self.link)

    def hello(self) -> Hello:
        return Hello(cluster_id="c", voter=ME, incarnation=1, address="h:1")

    def lagging(self) -> tuple[Lagging, ...]:
        return self.out_of_sync

    def is_stranger(self, voter: ReplicaKey) -> bool:
        return voter in self.strangers

    def leaders_changed(self) -> None: ...

    def clock_heard(self, voter: ReplicaKey, wall_ms: int) -> None:
        self.clocks.append((voter, wall_ms))

    def load_heard(self, voter: ReplicaKey, load: Load) -> None:
        self.loads.append((voter, load))

    def turn(self) -> int:
        """
        Execute the callbacks and return how many of them raised an exception.  An event loop would log such errors and
        continue.
        """
        failed = 0
        turns, self.turns[:] = [*self.turns], []
        for callback in turns:
            try:
                callback()
            except ZeroDivisionError:
                failed += 1
        return failed

    def tick(self, after_ms: int) -> None:
        self.clock.now_ms += after_ms
        self.stall_tolerant_clock.tick()
        self.peers.tick()

    def hear(self, *lagging: Lagging, flags: int = 0, wall_ms: int | None = None, **more: Any) -> None:
        heartbeat = frames.encode_heartbeat(frames.Heartbeat(0, flags, lagging, wall_ms, **more))
        self.peers.received(self.link, memoryview(b"".join(heartbeat)))


@pytest.fixture
def linked() -> Linked:
    return Linked()


def test_a_request_without_a_response_is_given_up(linked: Linked) -> None:
    """
    If a peer drops a response although the connection stays open, the request ends with an unknown outcome after its
    time limit.  A response that arrives later does not call the callback again.
    """
    answers: list[object] = []
    linked.peers.ask(OTHER, join.API, JOIN, answers.append)

    for _ in range(ASKED_MS // STEP_MS_MAX - 1):
        linked.hear()
        linked.tick(STEP_MS_MAX)
        assert not answers
    linked.tick(STEP_MS_MAX)
    linked.turn()
    linked.peers.received(linked.link, memoryview(b"".join(frames.encode_response(1, [encoded(join.Response())]))))

    assert [OUTCOME_UNKNOWN] == answers


def test_a_response_is_decoded(linked: Linked) -> None:
    """
    The callback of a request gets the decoded response.  An empty response means that the peer is not the controller
    and did not handle the request.
    """
    answers: list[object] = []
    for correlation, data in enumerate([encoded(join.Response(broker_id=4)), b""], 1):
        linked.peers.ask(OTHER, join.API, JOIN, answers.append)
        linked.peers.received(linked.link, memoryview(b"".join(frames.encode_response(correlation, [data]))))

    assert [join.Response(broker_id=4), NO_CONTROLLER] == answers


def test_a_request_with_an_undecodable_response_has_an_unknown_outcome(linked: Linked) -> None:
    """
    If a response cannot be decoded, for example because of an unknown version, the outcome of the request is unknown,
    and the connection is closed.
    """
    answers: list[object] = []
    linked.peers.ask(OTHER, join.API, JOIN, answers.append)

    with pytest.raises(ProtocolError):
        linked.peers.received(linked.link, memoryview(b"".join(frames.encode_response(1, [b"unknown"]))))
    linked.peers.lost(linked.link, "malformed")
    linked.turn()

    assert [OUTCOME_UNKNOWN] == answers


def test_every_request_of_a_lost_connection_fails_even_if_a_callback_raises(linked: Linked) -> None:
    """
    If the callback of a failed request raises an exception, the event loop handles it.  Neither the other callbacks nor
    the handling of the lost connection are affected.
    """
    answers: list[object] = []

    def failing(_: object) -> None:
        raise ZeroDivisionError

    linked.turn()
    linked.peers.ask(OTHER, join.API, JOIN, failing)
    linked.peers.ask(OTHER, join.API, JOIN, answers.append)

    linked.peers.lost(linked.link, "reset")
    failed = linked.turn()

    assert (1, [OUTCOME_UNKNOWN]) == (failed, answers)


def test_a_dropped_leader_table_is_sent_again(linked: Linked) -> None:
    """
    A leader table that the link has dropped is sent again.  Here, the table filled the frame to its limit, so the frame
    was sent immediately, when the send queue of the link was full.
    """
    linked.turn()
    linked.link.is_full = True
    long = create_internal_topic.Request(name="x" * (FRAME_BYTES - 50))
    linked.peers.ask(OTHER, create_internal_topic.API, long, lambda _: None)
    linked.table.leads(ShardId(7), 3)
    linked.peers.tell_leaders()
    linked.link.is_full = False

    linked.peers.tick()
    linked.turn()

    assert {7: 3} == linked.link.leaders()


def test_an_empty_leader_table_is_sent_again(linked: Linked) -> None:
    """
    If the link drops an empty leader table, the table is sent again; otherwise, the peer would name this broker as a
    leader until another one leads.
    """
    linked.table.leads(ShardId(7), 3)
    linked.peers.tell_leaders()
    linked.turn()
    linked.link.is_full = True
    linked.table.leads(ShardId(7), 0)
    linked.peers.tell_leaders()
    linked.turn()
    linked.link.is_full = False
    linked.link.frames.clear()

    linked.peers.tick()
    linked.turn()

    (told,) = [it for it in linked.link.sections() if isinstance(it, frames.Leaders)]
    assert (0, ()) == (told.from_version, told.terms)


def test_a_restarted_peer_is_detected(linked: Linked) -> None:
    """
    A restart ends all leaderships of the peer.  The loss of a connection alone does not.
    """
    for incarnation in (2, 2, 3):
        linked.peers.lost(linked.link, "gone")
        linked.link.hello = replace(linked.link.hello, incarnation=incarnation)
        linked.peers.linked(linked.link)

    assert [OTHER] == linked.handler.restarted


def test_a_silent_peer_is_not_alive(linked: Linked) -> None:
    """
    A peer stops counting as alive 2 s after its last heartbeat, as measured by this broker's ticks.
    """
    linked.hear()
    alive = []
    for _ in range(SILENT_MS // 250 + 1):
        alive.append(linked.peers.is_alive(OTHER))
        linked.tick(250)

    assert ([True] * (SILENT_MS // 250 + 1), False) == (alive, linked.peers.is_alive(OTHER))


def test_a_connection_without_heartbeats_does_not_make_a_peer_alive(linked: Linked) -> None:
    """
    A broker can open a connection even while its journal hangs.  A peer whose recent heartbeat arrived on an earlier
    connection stays alive.
    """
    before = linked.peers.is_alive(OTHER)
    linked.hear()
    linked.peers.lost(linked.link, "reset")
    lost = linked.peers.is_alive(OTHER)
    linked.peers.linked(linked.link)
    again = linked.peers.is_alive(OTHER)
    linked.peers.lost(linked.link, "reset")
    for _ in range(SILENT_MS // 250 + 1):
        linked.tick(250)
    linked.peers.linked(linked.link)

    assert (False, False, True, False) == (before, lost, again, linked.peers.is_alive(OTHER))


def test_a_heartbeat_of_an_earlier_process_does_not_make_a_peer_alive(linked: Linked) -> None:
    """
    A heartbeat from before a peer's restart does not make it alive: the peer may be killed and restarted within 2 s,
    and its journal may hang after the restart.
    """
    linked.hear()
    linked.peers.lost(linked.link, "killed")
    linked.link.hello = replace(linked.link.hello, incarnation=7)
    linked.peers.linked(linked.link)
    before = linked.peers.is_alive(OTHER)
    linked.hear()

    assert (False, True) == (before, linked.peers.is_alive(OTHER))


def test_a_new_connection_begins_with_a_heartbeat(linked: Linked) -> None:
    """
    The first message on a new connection is a heartbeat, except before this broker's first tick and while its journal
    hangs.
    """
    linked.turn()
    first = [it for it in linked.link.sections() if isinstance(it, frames.Heartbeat)]
    linked.tick(250)
    said = []
    for linked.is_syncing in (True, False):
        linked.peers.lost(linked.link, "reset")
        linked.link.frames.clear()
        linked.peers.linked(linked.link)
        linked.turn()
        said.append(sum(isinstance(it, frames.Heartbeat) for it in linked.link.sections()))

    assert ([], [1, 0]) == (first, said)


def test_no_peer_is_silent_for_a_broker_that_stalled(linked: Linked) -> None:
    """
    The heartbeats of the peers wait in the sockets of the stalled broker.  The peers still count as alive, even if the
    broker stalls after every tick.
    """
    linked.hear()
    for _ in range(10):
        linked.tick(60_000)
        assert linked.peers.is_alive(OTHER)
        linked.hear()


def test_each_heartbeat_lists_the_lagging_replicas(linked: Linked) -> None:
    """
    Each heartbeat replaces the list of the previous one; before the first heartbeat the list is unknown.
    """
    lagging = (ShardId(7), BrokerId(3))
    untold = linked.peers.lagging(OTHER)
    linked.hear(lagging)
    before = linked.peers.lagging(OTHER)
    linked.hear()
    after = linked.peers.lagging(OTHER)
    linked.out_of_sync = (lagging,)
    linked.peers.tick()
    linked.turn()

    assert (None, {lagging}, frozenset()) == (untold, before, after)
    told = linked.link.sections()
    assert (lagging,) == next(it.lagging for it in told if isinstance(it, frames.Heartbeat))


def test_no_leadership_is_transferred_to_a_peer_before_its_first_heartbeat(linked: Linked) -> None:
    """
    No leadership is transferred to a peer before its first heartbeat, which shows whether it may lead: the peer may
    have just started, or its disk may be full.
    """
    before = linked.peers.is_alive(OTHER), linked.peers.may_lead(OTHER)
    linked.hear()
    stays = linked.peers.may_lead(OTHER)
    linked.hear(flags=frames.DRAINING)

    assert ((False, False), True, False) == (before, stays, linked.peers.may_lead(OTHER))


def test_a_heartbeat_tells_a_peer_that_the_metadata_does_not_have_it(linked: Linked) -> None:
    """
    No metadata reaches a broker that was removed, so its peers must say it.  Nothing is said to a peer that is not
    heard, which learns it when it is back.
    """
    linked.strangers = {OTHER}
    linked.tick(250)
    linked.turn()
    linked.hear()
    linked.tick(250)
    linked.turn()
    linked.strangers = set()
    linked.tick(250)
    linked.turn()

    told = [it.flags & frames.RECEIVER_IS_STRANGER for it in linked.link.sections() if isinstance(it, frames.Heartbeat)]
    assert [0, frames.RECEIVER_IS_STRANGER, 0] == told


def test_live_peers_that_do_not_have_this_broker_are_known(linked: Linked) -> None:
    """What a peer said before it fell silent may have passed."""
    linked.hear(flags=frames.RECEIVER_IS_STRANGER)
    told = [linked.peers.estranged()]
    for _ in range(SILENT_MS // 250 + 1):
        linked.tick(250)
    told.append(linked.peers.estranged())
    linked.hear()

    assert [[OTHER], [], []] == [*told, linked.peers.estranged()]


def test_a_heartbeat_tells_whether_its_receiver_is_alive(linked: Linked) -> None:
    """
    A network partition may affect only one direction, so each broker must learn whether its own heartbeats arrive.
    """
    linked.hear()
    for _ in range(SILENT_MS // 250 + 1):
        linked.tick(250)
        linked.turn()
    told = [it.flags & frames.HEARS_RECEIVER for it in linked.link.sections() if isinstance(it, frames.Heartbeat)]
    linked.hear()
    before = linked.peers.has_two_way_contact(OTHER)
    linked.hear(flags=frames.HEARS_RECEIVER)

    assert [frames.HEARS_RECEIVER] * (SILENT_MS // 250) + [0] == told
    assert (False, True) == (before, linked.peers.has_two_way_contact(OTHER))


def test_every_heartbeat_has_the_wall_clock_of_its_tick(linked: Linked) -> None:
    """
    A heartbeat tells the wall clock of the tick that sends it, even if nothing else has changed since the last one.  It
    is the clock of the machine: it may step back, and it counts stalls.
    """
    for linked.clock.wrong_ms in (0, 0, -3_600_000):
        linked.tick(60_000)
        linked.turn()

    begin_ms = linked.clock.now_ms - 180_000
    told = [it.wall_ms for it in linked.link.sections() if isinstance(it, frames.Heartbeat)]
    assert [begin_ms + 60_000, begin_ms + 120_000, begin_ms + 180_000 - 3_600_000] == told


def test_the_wall_clock_of_a_peer_is_reported(linked: Linked) -> None:
    """
    Each clock in a heartbeat is reported once.  Older brokers do not send it, and a process that asks to join has no
    replica key.
    """
    linked.hear(wall_ms=70)
    linked.hear()
    linked.hear(wall_ms=60)
    linked.link.hello = replace(linked.link.hello, voter=None)
    linked.hear(wall_ms=50)

    assert [(OTHER, 70), (OTHER, 60)] == linked.clocks


def test_each_heartbeat_has_the_newest_level_that_its_sender_supports(linked: Linked) -> None:
    """
    A peer may go back to an older version, which tells a lower level or, at the first level, none.  The level of a peer
    without a connection is not assumed.
    """
    levels = [linked.peers.level(OTHER)]
    for level in (3, 2, 1):
        linked.hear(level=level)
        levels.append(linked.peers.level(OTHER))
    linked.hear(level=3)
    linked.peers.lost(linked.link, "gone")
    levels.append(linked.peers.level(OTHER))
    linked.peers.linked(linked.link)
    linked.peers.tick()
    linked.turn()

    assert [1, 3, 2, 1, 1] == levels
    assert 3 == next(it.level for it in linked.link.sections() if isinstance(it, frames.Heartbeat))


def test_each_heartbeat_lists_the_brokers_that_its_sender_does_not_hear(linked: Linked) -> None:
    """Each heartbeat replaces the list of the previous one.  A peer without a connection has no opinion."""
    lists = [linked.peers.unheard_by(OTHER)]
    for unheard in ((BrokerId(3), BrokerId(4)), (BrokerId(4),), ()):
        linked.hear(unheard=unheard)
        lists.append(linked.peers.unheard_by(OTHER))
    linked.hear(unheard=(BrokerId(3),))
    linked.peers.lost(linked.link, "gone")
    lists.append(linked.peers.unheard_by(OTHER))
    linked.peers.linked(linked.link)
    linked.unheard = (BrokerId(7), BrokerId(9))
    linked.peers.tick()
    linked.turn()

    assert [set(), {3, 4}, {4}, set(), set()] == lists
    assert (7, 9) == next(it.unheard for it in linked.link.sections() if isinstance(it, frames.Heartbeat))


def many_links(linked: Linked, count: int) -> list[HandLink]:
    """Replace the link of `linked` with links to `count` brokers, none of which has sent or received anything."""
    linked.peers.lost(linked.link, "replaced")
    links = []
    for number in range(2, 2 + count):
        link = HandLink()
        link.hello = replace(link.hello, voter=ReplicaKey(BrokerId(number), DirectoryId(number.to_bytes(16))))
        linked.peers.linked(link)
        links.append(link)
    linked.turn()
    for link in links:
        link.frames.clear()
    return links


def test_the_heartbeats_of_many_links_leave_in_slices(linked: Linked) -> None:
    """
    Every turn of the event loop sends at most a slice, so that requests are answered in between, and each link gets one
    heartbeat for each tick.
    """
    links = many_links(linked, 299)
    linked.peers.tick()
    sent = [sum(len(link.frames) for link in links)]
    while linked.turns:
        linked.turn()
        sent.append(sum(len(link.frames) for link in links))

    assert [0, SLICE, 2 * SLICE, 3 * SLICE, 4 * SLICE, 299] == sent[:6]
    assert {299} == set(sent[5:])
    assert {1} == {sum(isinstance(it, frames.Heartbeat) for it in link.sections()) for link in links}


def test_the_heartbeats_of_few_links_leave_at_once(linked: Linked) -> None:
    """A small cluster sends all heartbeats in the turn after the tick."""
    links = many_links(linked, SLICED_FROM - 1)

    linked.peers.tick()
    linked.turn()

    assert {1} == {len(link.frames) for link in links}


def test_no_link_is_passed_over_when_the_next_tick_comes_early(linked: Linked) -> None:
    """
    If the loop is so busy that the next tick comes before all slices, the links that have not had their turn come
    first.  A link that is lost meanwhile gets nothing.
    """
    links = many_links(linked, 299)
    for _ in range(299 // SLICE + 1):
        linked.peers.tick()
        linked.peers.lost(links.pop(), "gone")
    lost = 299 - len(links)
    linked.turn()

    assert {1} == {len(link.frames) for link in links}
    assert 5 == lost


LOAD = Load(broker=BrokerLoad(disk_total=5, disk_used=4, cpu=3, bytes_in=2, bytes_out=1), shards=())


def test_figures_of_the_load_are_passed_on_with_their_sender(linked: Linked) -> None:
    """The owner is told who has sent figures, and the peer receives those that this broker sends."""
    linked.peers.send_load(OTHER, LOAD)
    linked.peers.send_load(ME, LOAD)  # without a connection, nothing is sent
    linked.turn()
    linked.peers.received(linked.link, memoryview(b"".join(frames.encode_load_section(LOAD))))

    assert [LOAD] == [section for section in linked.link.sections() if isinstance(section, Load)]
    assert [(OTHER, LOAD)] == linked.loads


def test_a_joining_broker_has_no_load(linked: Linked) -> None:
    """A broker without an identity cannot report figures."""
    joining = HandLink()
    joining.hello = replace(joining.hello, voter=None)
    linked.peers.linked(joining)

    linked.peers.received(joining, memoryview(b"".join(frames.encode_load_section(LOAD))))

    assert [] == linked.loads


def test_a_delivery_ends_when_sections_may_be_lost(linked: Linked) -> None:
    """A dropped frame and a new connection begin another delivery, so that the sender repeats what must not be lost."""
    first = linked.peers.delivery(OTHER)
    linked.peers.send_load(OTHER, LOAD)
    linked.turn()
    same = linked.peers.delivery(OTHER)
    linked.link.is_full = True
    linked.peers.send_load(OTHER, LOAD)
    linked.turn()
    dropped = linked.peers.delivery(OTHER)
    linked.peers.lost(linked.link, "lost")
    none = linked.peers.delivery(OTHER)
    linked.peers.linked(HandLink())

    assert (first is same, none) == (True, None)
    assert first is not None and dropped not in (None, first) and linked.peers.delivery(OTHER) not in (dropped, None)
