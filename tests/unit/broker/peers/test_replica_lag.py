"""The leader of a shard decides which of its replicas are in sync."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.peers.replica_lag import LAG_MS, RESTED_TICKS, ReplicaLag
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.raft.progress import Progress, ProgressState

SHARD = ShardId(7)
ME, OTHER, THIRD = (ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in (1, 2, 3))
TICK_MS = 250


class Led:
    """A shard with two replicas, led by this broker.  Tests set the commit index and the other replica's progress."""

    def __init__(self) -> None:
        self.progress = Progress(next_index=1, state=ProgressState.REPLICATE)
        self.members = {OTHER: self.progress}
        self.replica = SimpleNamespace(
            me=ME, voters=(ME, OTHER), commit_index=40, status=self.status,
        )  # fmt: skip
        self.clock = HandClock()
        self.alive = {OTHER}
        self.planned = [ME, OTHER]
        self.shard: Any = SimpleNamespace(shard_id=SHARD, replica=self.replica, is_serving=True, needs_tick=False)
        self.previous: list[ReplicaKey] = []
        planned = SimpleNamespace(replicas=self.planned, previous=self.previous)
        self.image: Any = SimpleNamespace(shards={SHARD: planned})
        self.shards = {SHARD: self.shard}
        self.lag = ReplicaLag(self, self.clock)
        self.lag.serving_changed(self.shard)

    def alive_peers(self) -> frozenset[ReplicaKey]:
        return frozenset(self.alive)

    def status(self) -> Any:
        return SimpleNamespace(members={member: it.status() for member, it in self.members.items()})

    def check(self, commit_index: int, *, has: int, needs_tick: bool = False) -> bool:
        """Set the commit index and the progress of the other replica, let one tick pass, and return whether that
        replica is in sync.
        """
        was = self.replica.commit_index, self.progress.match_index
        self.replica.commit_index, self.progress.match_index = commit_index, has
        self.shard.needs_tick = needs_tick or was != (commit_index, has)
        self.clock.now_ms += TICK_MS
        told = self.lag.check()
        assert set(told) == self.lag.lagging
        return (SHARD, OTHER.broker_id) not in told


def test_a_new_replica_is_out_of_sync_until_it_has_what_was_committed_one_tick_before() -> None:
    """
    A replica that has just been created, or has just started, lacks entries: if another broker stopped now, the shard
    would become unavailable.
    """
    led = Led()

    seen = [led.check(*at, has=has) for *at, has in ((1_000, 0), (1_000, 900), (1_100, 1_000), (1_200, 1_050))]

    assert [False, False, True, True] == seen


def test_a_replica_in_sync_may_lag_for_a_while() -> None:
    """
    A replica that is slightly behind at every check, like every follower under load, stays in sync.
    """
    led = Led()
    led.check(50, has=50)

    seen = [led.check(1_000, has=50), led.check(1_000, has=50)]
    led.clock.now_ms += LAG_MS
    seen += [led.check(2_000, has=900), led.check(2_000, has=2_000)]

    assert [True, True, False, True] == seen


@pytest.mark.parametrize(
    "change",
    [
        lambda led: led.alive.clear(),
        lambda led: led.progress.damaged((1, 5)),
        lambda led: led.progress.install(),
        lambda led: setattr(led.replica, "voters", (ME, THIRD)),
        lambda led: led.members.clear(),
    ],
    ids=["not alive", "damaged", "installs", "no voter", "no member"],
)
@pytest.mark.parametrize("is_at_rest", [True, False])
def test_a_replica_that_does_not_count_is_out_of_sync(change: Any, is_at_rest: bool) -> None:
    """
    A replica that is damaged or not a voter, for example, is out of sync whichever entries it has.  The leader notices
    this at the next check while the shard is busy, and at one of the next `RESTED_TICKS` checks while it is idle.
    """
    led = Led()
    was = led.check(50, has=50)

    change(led)
    seen = [led.check(50, has=50, needs_tick=not is_at_rest) for _ in range(RESTED_TICKS)]

    assert (True, False) == (was, seen[-1 if is_at_rest else 0])


def test_a_replica_that_was_away_is_out_of_sync_until_it_has_caught_up() -> None:
    """
    A replica that was in sync before its broker went down has to catch up again.
    """
    led = Led()
    led.check(50, has=50)
    led.alive.clear()
    led.check(90, has=50)
    led.alive.add(OTHER)

    assert [False, False, True] == [led.check(90, has=50), led.check(90, has=80), led.check(90, has=90)]


def test_a_new_term_as_leader_begins_without_knowledge() -> None:
    """
    When this broker becomes the leader again, its earlier observations of replicas no longer count, because another
    broker may have led in the meantime.
    """
    led = Led()
    led.check(50, has=50)
    led.lag.serving_changed(led.shard)

    assert not led.check(60, has=0)


def test_shards_that_are_not_led_here_are_forgotten() -> None:
    """
    Shards that this broker no longer leads are forgotten; otherwise, memory would grow as topics and leaders change.
    """
    led = Led()
    led.check(50, has=0)
    led.shard.is_serving = False
    led.lag.serving_changed(led.shard)
    told = [led.lag.check() for _ in range(RESTED_TICKS)]
    led.shard.is_serving = True
    led.lag.serving_changed(led.shard)
    led.check(50, has=0)
    led.shards.clear()
    told += [led.lag.check() for _ in range(RESTED_TICKS)]

    assert ((), (), 0) == (told[RESTED_TICKS - 1], told[-1], len(led.lag._led))


def test_the_voters_in_force_are_in_sync_or_not_whether_planned_or_not() -> None:
    """
    A voter that is to leave still counts for the majority.  Clients are told of it only while a newcomer is on its way,
    and so its lag is not in their list here.
    """
    led = Led()
    led.planned[:] = [ME]
    first = led.lag.in_sync(SHARD)
    seen = [(led.check(1_000, has=has), led.lag.in_sync(SHARD)) for has in (0, 1_000)]

    assert {ME.broker_id} == first
    assert [(True, {ME.broker_id}), (True, {ME.broker_id, OTHER.broker_id})] == seen
    assert frozenset() == led.lag.in_sync(ShardId(8))


@pytest.mark.parametrize(
    ("votes", "has", "told"),
    [(True, 50, {THIRD}), (True, 0, {THIRD, OTHER}), (False, 50, {THIRD, OTHER})],
    ids=["still counts", "is late", "is removed"],
)
def test_a_replica_that_is_to_go_is_told_while_a_newcomer_is_on_its_way(
    votes: bool, has: int, told: set[ReplicaKey]
) -> None:
    """The other brokers know only from this list whether the replica is still a voter."""
    led = Led()
    led.planned[:] = [ME, THIRD]
    led.previous[:] = [ME, OTHER]
    led.replica.voters = (ME, OTHER) if votes else (ME,)

    led.check(50, has=has)

    assert {(SHARD, it.broker_id) for it in told} == led.lag.lagging


def test_a_replica_that_is_gone_is_not_told_for_ever() -> None:
    """The list would grow with every move."""
    led = Led()
    led.previous[:] = [ME, THIRD]

    led.check(50, has=50)

    assert frozenset() == led.lag.lagging


def test_a_planned_replica_that_does_not_vote_is_not_among_the_voters_in_sync() -> None:
    """A newcomer that has everything does not count for the majority until it votes."""
    led = Led()
    led.replica.voters = (ME,)

    assert not led.check(50, has=50)
    assert {ME.broker_id} == led.lag.in_sync(SHARD)


def test_changes_of_the_voters_in_sync_are_told_once() -> None:
    """The host need not compare all shards at each tick."""
    led = Led()
    taken = []
    for is_alive in (True, True, False, False):
        led.alive = {OTHER} if is_alive else set()
        led.check(50, has=50)
        taken.append(led.lag.take_changed())

    assert [[SHARD], [], [SHARD], []] == taken
