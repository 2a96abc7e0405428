"""What a leader sends to a learner waits for its turn: pulled chunks, and appended entries."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.shard.shard_side import LEADER, LEARNER, OPTIONS, Side, exchange
from tidemill.model.shard import ShardId
from tidemill.raft.message_codec import decode
from tidemill.raft.messages import AppendEntries, Message, SnapshotChunk, SnapshotOffer, SnapshotPull
from tidemill.raft.voters import Membership
from tidemill.rebalance.sent_copies import Copy
from tidemill.shard.copy_pacing import CopyPacing

COPY = Copy(ShardId(1), LEARNER)
VALUE = b"v" * 1_000


class Timers:
    """A clock with timers, for one `CopyPacing`."""

    def __init__(self, limit: int) -> None:
        self.now_ms = 0
        self.limit = limit
        self._timers: list[tuple[int, Callable[[], None]]] = []
        self.pacing = CopyPacing(lambda: self.now_ms, self._call_later, lambda: self.limit)

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self._timers.append((self.now_ms + round(seconds * 1_000), callback))

    @property
    def count(self) -> int:
        return len(self._timers)

    def run(self, for_ms: int) -> None:
        until_ms = self.now_ms + for_ms
        while due := [timer for timer in self._timers if timer[0] <= until_ms]:
            timer = min(due, key=lambda timer: timer[0])
            self._timers.remove(timer)
            self.now_ms = max(self.now_ms, timer[0])
            timer[1]()
        self.now_ms = until_ms


@pytest.fixture
def timers() -> Timers:
    return Timers(limit=1_000)


def lead(timers: Timers, *, rows: int) -> Side:
    """Return a leader that has committed 20 batches of 1,000 bytes, and keeps `rows` rows in memory."""
    side = Side(LEADER, pacing=timers.pacing, options=replace(OPTIONS, tail_entries=rows))
    side.tick()
    for number in range(20):
        side.write(number % 2, VALUE)
    side.resume()
    timers.run(60_000)  # pays for the first probe, and forgets the rate of these writes
    timers.pacing.copies.sent_bytes = 0
    side.out.clear()
    side.sent.clear()
    side.alive = {LEARNER}
    return side


def sent_to_learner(side: Side, kind: type[Message]) -> list[Message]:
    return [message for message in side.sent if isinstance(message, kind)]


def deliver(sender: Side, to: Side) -> None:
    while sender.out:
        to.shard.receive(sender.me, decode(memoryview(sender.out.popleft())))
        to.resume()


def test_a_pull_above_the_rate_is_answered_later(timers: Timers) -> None:
    """
    The first pull waits until the offer is paid for, the second one for the first chunk.  However often a pull is
    repeated meanwhile, it is answered once, and the offer is not repeated.
    """
    leader, learner = lead(timers, rows=2), Side(LEARNER)
    chunks = []
    for _ in range(2):
        exchange(leader, learner, turns=8)
        wait_ms = timers.pacing.copies.wait_ms(COPY, timers.now_ms)
        timers.run(wait_ms - 10)
        chunks.append(len(sent_to_learner(leader, SnapshotChunk)))
        timers.run(20)
        leader.resume()
        chunks.append(len(sent_to_learner(leader, SnapshotChunk)))
    exchange(leader, learner, turns=8)

    assert [0, 1, 1, 2] == chunks
    assert 1 == len(sent_to_learner(leader, SnapshotOffer))
    assert 2 < len(sent_to_learner(learner, SnapshotPull))


def test_a_waiting_pull_has_read_nothing(timers: Timers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand copies that wait must not hold a thousand chunks."""
    leader, learner = lead(timers, rows=2), Side(LEARNER)
    exchange(leader, learner, turns=2)
    read = []
    for partition in leader.shard.log.partitions.values():
        monkeypatch.setattr(type(partition), "read", lambda *_, **__: read.append(1))
    pulls = len(sent_to_learner(learner, SnapshotPull))

    exchange(leader, learner, turns=4)

    assert pulls < len(sent_to_learner(learner, SnapshotPull)), "the learner repeats its pull"
    assert not read


def test_a_slow_copy_ends(timers: Timers) -> None:
    """The learner has everything in the end, and is promoted like any other."""
    leader, learner = lead(timers, rows=2), Side(LEARNER)

    for _ in range(80):
        exchange(leader, learner, turns=1)
        timers.run(500)

    assert [leader.values(number) for number in (0, 1)] == [learner.values(number) for number in (0, 1)]
    assert learner.shard.replica.match_index == leader.shard.log.last_index


def test_entries_above_the_rate_are_appended_later(timers: Timers) -> None:
    """The learner is paused until it owes nothing; then it gets all that was written meanwhile."""
    leader, learner = lead(timers, rows=1_000), Side(LEARNER)
    exchange(leader, learner, turns=4)
    before = learner.shard.log.last_index
    owed = timers.pacing.copies.sent_bytes
    for _ in range(3):
        leader.write(0, VALUE)
    exchange(leader, learner, turns=4)
    paused_at = learner.shard.log.last_index

    timers.run(owed + 10)
    exchange(leader, learner, turns=1)

    assert before == paused_at > 20
    assert leader.shard.log.last_index == learner.shard.log.last_index == before + 3
    assert owed < timers.pacing.copies.sent_bytes


def test_a_voter_never_waits(timers: Timers) -> None:
    """The promotion of a learner ends its pause: commits wait for it from then on."""
    leader, learner = lead(timers, rows=1_000), Side(LEARNER)
    exchange(leader, learner, turns=4)
    leader.write(0, VALUE)
    exchange(leader, learner, turns=1)
    paused_at = learner.shard.log.last_index

    leader.shard.change_membership(Membership((LEADER, LEARNER)), leader.now_ms)
    leader.resume()
    exchange(leader, learner, turns=2)

    assert paused_at < leader.shard.log.last_index == learner.shard.log.last_index
    assert leader.shard.replica.commit_index == leader.shard.log.last_index
    assert timers.pacing.copies.wait_ms(COPY, timers.now_ms)
    assert leader.shard._learners.is_due(LEARNER), "a damaged voter pulls at full speed"


def test_a_copy_ends_with_the_promotion_of_its_learner(timers: Timers) -> None:
    """Its share of the limit is free, and a timer that is still running does not begin it again."""
    leader, learner = lead(timers, rows=1_000), Side(LEARNER)
    exchange(leader, learner, turns=4)
    leader.write(0, VALUE)
    exchange(leader, learner, turns=1)
    had_ended = timers.pacing.copies.has_ended(COPY)

    leader.shard.change_membership(Membership((LEADER, LEARNER)), leader.now_ms)
    leader.resume()
    exchange(leader, learner, turns=2)
    has_ended = timers.pacing.copies.has_ended(COPY)
    timers.run(60_000)

    assert (False, True) == (had_ended, has_ended)
    assert timers.pacing.copies.has_ended(COPY)
    assert not timers.count


def test_a_copy_ends_with_the_leadership_of_its_sender(timers: Timers) -> None:
    """The next leader sends the rest, under its own limit."""
    leader, learner = lead(timers, rows=1_000), Side(LEARNER)
    exchange(leader, learner, turns=4)
    had_ended = timers.pacing.copies.has_ended(COPY)

    term = leader.shard.replica.term + 1
    leader.shard.receive(LEARNER, AppendEntries(term=term, prev_index=0, prev_term=0, commit_index=0))
    leader.resume()

    assert (False, True) == (had_ended, timers.pacing.copies.has_ended(COPY))


def test_a_pause_ends_where_a_pull_takes_its_place(timers: Timers) -> None:
    """
    A paused learner loses its connection to memory: its next row goes, and it pulls a snapshot.  When it has that, it
    is sent entries again.
    """
    leader, learner = lead(timers, rows=1_000), Side(LEARNER)
    exchange(leader, learner, turns=4)
    leader.write(0, VALUE)
    leader.shard.replica.needs_install(LEARNER)

    for _ in range(80):
        exchange(leader, learner, turns=1)
        timers.run(500)
    leader.write(1, VALUE)
    for _ in range(10):
        exchange(leader, learner, turns=1)
        timers.run(500)

    assert sent_to_learner(learner, SnapshotPull) or sent_to_learner(leader, SnapshotOffer)
    assert leader.shard.log.last_index == learner.shard.log.last_index


def test_twice_the_ingest_rate_whatever_the_limit(timers: Timers) -> None:
    """A learner of a busy shard follows it, although the limit is a hundredth of what is written."""
    timers.limit = 100
    leader, learner = lead(timers, rows=1_000), Side(LEARNER)
    lag = []

    for _ in range(60):
        for _ in range(5):
            leader.write(0, VALUE)
        exchange(leader, learner, turns=1)
        timers.run(500)
        lag.append(leader.shard.log.last_index - learner.shard.log.last_index)

    assert max(lag[-20:]) <= 10


def test_without_pacing_nothing_waits() -> None:
    """The metadata is sent to every broker at once."""
    leader, learner = lead(Timers(1), rows=1_000), Side(LEARNER)
    leader = Side(LEADER)
    leader.tick()
    for _ in range(20):
        leader.write(0, VALUE)
    leader.alive = {LEARNER}

    exchange(leader, learner, turns=4)

    assert leader.shard.log.last_index == learner.shard.log.last_index


def test_a_stopped_shard_sends_nothing_more(timers: Timers) -> None:
    """A timer that fires after the shard was closed must not read files that are being removed."""
    leader, learner = lead(timers, rows=2), Side(LEARNER)
    exchange(leader, learner, turns=8)
    chunks = len(sent_to_learner(leader, SnapshotChunk))

    leader.shard.stop()
    timers.run(60_000)

    assert chunks == len(sent_to_learner(leader, SnapshotChunk))
    assert not timers.count
