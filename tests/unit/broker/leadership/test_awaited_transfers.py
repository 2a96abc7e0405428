"""Leaderships that are asked for until they are transferred."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.unit.broker.broker_world import HandClock
from tests.unit.metadata.controller_world import Cluster, voter
from tidemill.broker.leadership.awaited_transfers import AwaitedTransfers, Failure
from tidemill.metadata.image import Shard
from tidemill.metadata.reassignments import Move, PlanMoves
from tidemill.model.broker_id import BrokerId, ReplicaKey, broker_ids
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.telemetry.event_log import EventLog

SHARD, GONE = ShardId(1), ShardId(9)
TWO, THREE, FOUR, FIVE = map(BrokerId, (2, 3, 4, 5))


class World:
    """Five brokers, and shard 1 on brokers 1 to 3; broker 1 leads it, and is the controller."""

    def __init__(self) -> None:
        self.metadata = Cluster(brokers=5)
        self.metadata.create("t", assignments=((0, tuple(map(BrokerId, (1, 2, 3)))),))
        self.clock = HandClock()
        self.watchers: dict[Callable[[], None], None] = {}
        self.leader: int | None = 1
        self.down: set[int] = set()
        self.drained: set[int] = set()
        self.late: set[int] = set()
        self.voters: tuple[ReplicaKey, ...] | None = tuple(map(voter, (1, 2, 3)))
        self.is_controller = True
        self.asked: list[tuple[int, int]] = []  # when, in seconds, and for which broker
        self.lines: list[str] = []
        self.ended: list[Failure | None] = []
        self.transfers = AwaitedTransfers(
            self,
            self.clock,
            EventLog(self.lines.append, self.clock.wall_ms, as_json=False),
            ask=self.ask,
            voters=lambda _: self.voters,
            image=lambda: self.metadata.image,
            leads=lambda: self.is_controller,
        )

    def ask(self, moves: Sequence[tuple[ShardId, BrokerId]]) -> None:
        self.asked += [(self.clock.monotonic_ms() // 1_000, to) for _, to in moves]

    def reported_leader(self, shard_id: ShardId) -> BrokerId | None:
        return None if self.leader is None or shard_id != SHARD else BrokerId(self.leader)

    def is_up(self, broker_id: BrokerId) -> bool:
        return broker_id not in self.down

    def eligible_leaders(self) -> frozenset[BrokerId]:
        return frozenset(map(BrokerId, {1, 2, 3, 4, 5} - self.down - self.drained))

    def in_sync(self, planned: Shard) -> list[BrokerId]:
        return [it for it in broker_ids(planned.replicas) if it not in self.late]

    def begin(self, to: BrokerId = TWO, shard_id: ShardId = SHARD, within_ms: int = 5_000) -> None:
        self.transfers.begin(shard_id, to, within_ms, self.ended.append)

    def wait(self, seconds: int) -> None:
        for _ in range(4 * seconds):
            self.clock.now_ms += 250
            self.transfers.tick()

    def lead(self, broker_id: int) -> None:
        self.leader = broker_id
        for watcher in [*self.watchers]:
            watcher()

    def plan(self, *brokers: int) -> None:
        move = Move(shard_id=SHARD, brokers=tuple(map(BrokerId, brokers)), reason=Reason.LEADER)
        assert (None,) == self.metadata.do(PlanMoves(moves=(move,))).problems


@pytest.fixture
def world() -> World:
    return World()


def test_a_transfer_is_asked_for_again_until_the_target_leads(world: World) -> None:
    """
    The pauses grow, because the shard takes no records while a transfer is tried.  The end is told at once, and only
    then nothing is watched any more.
    """
    world.begin(within_ms=60_000)
    world.wait(20)
    before = [*world.ended]
    world.lead(2)
    world.wait(60)

    assert [(0, 2), (2, 2), (6, 2), (14, 2)] == world.asked
    assert ([], [None], {}) == (before, world.ended, world.watchers)


def test_a_broker_that_leads_already_is_not_asked_for(world: World) -> None:
    world.lead(2)

    world.begin()

    assert ([None], []) == (world.ended, world.asked)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"leader": None}, "shard 1 has no leader now"),
        ({"down": {2}}, "broker 2 is down"),
        ({"drained": {2}}, "broker 2 is drained, or not ready to lead"),
        ({"late": {2}}, "the replica of shard 1 on broker 2 is not in sync"),
        ({}, "broker 1 leads shard 1, and was asked 2 times to let broker 2 lead"),
    ],
)
def test_a_transfer_that_takes_too_long_says_what_is_in_the_way(world: World, change: dict[str, Any], why: str) -> None:
    """All of it may pass, so the transfer is tried until its time is over."""
    vars(world).update(change)

    world.begin()
    world.wait(4)
    before, told = [*world.ended], [*world.transfers.waiting()]
    world.wait(1)

    assert ([], [(SHARD, why)], [Failure(why)]) == (before, told, world.ended)


def test_what_has_been_asked_for_once_is_not_late_yet(world: World) -> None:
    """Most transfers take less than a second; a report must not show each of them as a problem."""
    world.begin()
    world.wait(1)

    assert [] == [*world.transfers.waiting()]


@pytest.mark.parametrize(
    ("to", "shard_id", "why"),
    [
        (FIVE, SHARD, "broker 5 has no replica of shard 1"),
        (TWO, GONE, "there is no shard 9; a deleted topic may have had it"),
    ],
)
def test_a_transfer_that_is_not_possible_is_refused_at_once(
    world: World, to: BrokerId, shard_id: ShardId, why: str
) -> None:
    world.begin(to, shard_id)

    assert ([Failure(why, is_refused=True)], []) == (world.ended, world.asked)


def test_a_member_may_lead_although_it_is_not_planned_or_has_not_voted_when_last_heard(world: World) -> None:
    """A replica that leaves votes still, and what leaders tell about voters may be a second old."""
    world.plan(4, 2, 1)

    world.begin(THREE)
    world.lead(3)
    world.begin(FOUR)
    world.lead(4)

    assert ([None, None], [3, 4]) == (world.ended, [to for _, to in world.asked])


def test_a_later_transfer_takes_the_place_of_an_earlier_one(world: World) -> None:
    """If both went on, they would take the leadership from each other."""
    world.begin(TWO)
    world.begin(THREE)
    world.wait(3)
    world.lead(3)

    assert [Failure("a later transfer has broker 3 lead shard 1", is_refused=True), None] == world.ended
    assert [(0, 2), (0, 3), (2, 3)] == world.asked


def test_another_controller_goes_on(world: World) -> None:
    """This one knows neither whether its transfer has happened nor what the other one plans."""
    world.begin()
    world.is_controller = False
    world.wait(1)

    assert [Failure("the controller has changed; look which broker leads, and ask again")] == world.ended
    assert {} == world.watchers


def test_a_planned_transfer_is_given_up_after_a_minute_and_logged(world: World) -> None:
    """Afterwards, the balance of preferred leaders carries it out."""
    world.plan(2, 1, 3)
    world.down = {2}

    world.transfers.plan([(SHARD, TWO)])
    world.wait(59)
    before = [*world.lines]
    world.wait(5)

    assert [0, 2, 6, 14, 30] == [at_s for at_s, _ in world.asked]
    assert [] == before
    (line,) = world.lines
    assert all(it in line for it in ("leadership not transferred", "shard=1", "to=2", "broker 2 is down"))


def test_a_later_plan_takes_the_place_of_a_planned_transfer(world: World) -> None:
    """A plan that has another preferred leader would be undone; a transfer by an operator needs no plan."""
    world.plan(2, 1, 3)
    world.transfers.plan([(SHARD, TWO)])
    world.plan(3, 1, 2)
    world.wait(10)
    world.begin(TWO)
    world.wait(1)

    assert [0, 10] == [at_s for at_s, _ in world.asked]
    assert [] == world.ended
    assert "a later plan has broker 3 lead shard 1" in world.lines[0]
