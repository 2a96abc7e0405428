"""Entries that a timer shard itself writes are stamped by the release clock, not by the clock of the leader."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.timers.timer_topic import TOPIC, create
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.timer_logs import arrivals_of
from tidemill.raft.entry import Command, Entry
from tidemill.raft.replica import Replica
from tidemill.shard.shard import Shard
from tidemill.timer.release_clock import AHEAD_MS_MAX

AHEAD_MS = 3_600_000
LEARNER = ReplicaKey(BrokerId(2), DirectoryId(bytes([2]) * 16))


def _begin_term(shard: Shard, wall_ms: int) -> None:
    shard.begin_term()


def _move_log_start(shard: Shard, wall_ms: int) -> None:
    shard.move_log_start(arrivals_of(0), 0, wall_ms)


def _change_membership(shard: Shard, wall_ms: int) -> None:
    shard.change_membership(replace(shard.replica.membership, learners=(LEARNER,)), wall_ms)


@pytest.mark.parametrize(
    ("command", "write"),
    [
        (Command.NO_OP, _begin_term),
        (Command.LOG_START, _move_log_start),
        (Command.VOTERS, _change_membership),
    ],
)
def test_an_entry_of_the_shard_does_not_follow_a_clock_that_is_wrong(
    command: Command, write: Callable[[Shard, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Append times never go back: after one that is an hour ahead, all delays would be an hour too long."""
    world = BrokerWorld()
    create(world)
    monkeypatch.setattr(Shard, "release_limit", property(lambda _: world.clock.now_ms))
    shard = world.partition(TOPIC).shard
    assert isinstance(shard, Shard)
    proposed: list[Entry] = []
    propose = Replica.propose

    def noted(replica: Replica, entry: Entry) -> int:
        if replica is shard.replica:
            proposed.append(entry)
        return propose(replica, entry)

    monkeypatch.setattr(Replica, "propose", noted)
    world.clock.wrong_ms = AHEAD_MS
    shard.tick(world.clock.monotonic_ms(), world.clock.wall_ms())

    write(shard, world.clock.wall_ms())
    world.stabilize()

    assert [(command, world.clock.now_ms + AHEAD_MS_MAX)] == [
        (it.payload[0], it.append_time) for it in proposed if it.payload
    ]
