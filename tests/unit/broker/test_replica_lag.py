"""Which replicas are in sync, as others are told."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.replica_lag import LAG_MS, ReplicaLag
from tidemill.model.broker_id import BrokerId, DirectoryId, Voter
from tidemill.model.shard import ShardId

SHARD = ShardId(7)
ME, LEADER = (Voter(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in (1, 2))
TICK_MS = 250


class Followed:
    """One replica that follows a leader; what it has and was told is set by hand."""

    def __init__(self) -> None:
        self.replica = SimpleNamespace(
            me=ME, voters=(ME, LEADER), leader=LEADER, leads=False, is_damaged=False, installing=None,
            told_commit_index=0, match_index=0, durable_index=40,
        )  # fmt: skip
        self.clock = HandClock()
        self.alive = {LEADER}
        shards: Any = {SHARD: SimpleNamespace(replica=self.replica)}
        self.shards = shards
        self.lag = ReplicaLag(shards=lambda: self.shards, is_alive=lambda it: it in self.alive, clock=self.clock)

    def hear(self, commit_index: int, *, has: int) -> None:
        self.replica.told_commit_index, self.replica.match_index, self.replica.durable_index = commit_index, has, has

    def look(self) -> bool:
        """Whether it is in sync, a tick later."""
        self.clock.now_ms += TICK_MS
        behind = self.lag.look()
        assert (SHARD in behind) is self.lag.is_behind(SHARD)
        return SHARD not in behind

    def keep_up(self) -> None:
        self.hear(50, has=50)
        self.look()
        assert self.look()


def test_one_that_starts_is_out_until_it_has_caught_up() -> None:
    """
    It may have been away for long, and its leader has not said yet what it lacks.
    """
    followed = Followed()
    seen = [followed.look(), followed.look()]
    for commit_index, has in ((1_000, 40), (1_000, 900), (1_100, 1_000), (1_100, 1_050)):
        followed.hear(commit_index, has=has)
        seen.append(followed.look())

    assert [False, False, False, False, True, True] == seen


def test_one_that_lags_is_given_time() -> None:
    """
    Under load every follower is a little behind at every look.
    """
    followed = Followed()
    followed.keep_up()
    followed.hear(1_000, has=50)
    seen = [followed.look() for _ in range(LAG_MS // TICK_MS + 2)]
    followed.hear(1_100, has=1_000)

    assert (True, True, False, True) == (seen[0], seen[-2], seen[-1], followed.look())


def test_what_is_not_heard_of_a_leader_counts_for_nothing() -> None:
    """
    Others may still hear this broker, and believe it.
    """
    followed = Followed()
    followed.keep_up()
    followed.alive.clear()

    seen = [followed.look() for _ in range(LAG_MS // TICK_MS + 1)]

    assert (True, False) == (seen[0], seen[-1])


@pytest.mark.parametrize("change", [{"is_damaged": True}, {"installing": (9, 1)}, {"voters": (LEADER,)}], ids=str)
def test_one_that_does_not_count_is_out_at_once_and_catches_up_before_it_is_back(change: dict[str, Any]) -> None:
    """
    However much it has: nobody may wait for it, or read from it.
    """
    followed = Followed()
    followed.keep_up()
    was = {name: getattr(followed.replica, name) for name in change}

    vars(followed.replica).update(change)
    out = followed.look()
    vars(followed.replica).update(was)
    seen = []
    for has in (50, 50, 60):
        followed.hear(60, has=has)
        seen.append(followed.look())

    assert (False, [False, False, True]) == (out, seen)


def test_a_leader_is_in_sync_with_itself() -> None:
    """
    Alone, too, where nobody tells it anything.
    """
    followed = Followed()
    followed.replica.leads, followed.replica.leader = True, ME

    assert followed.look()


def test_of_a_shard_that_is_gone_nothing_is_kept() -> None:
    """
    Topics come and go.
    """
    followed = Followed()
    followed.keep_up()

    followed.shards.clear()
    followed.lag.look()

    assert [0, 0] == [len(followed.lag._told), len(followed.lag._near_at)]
