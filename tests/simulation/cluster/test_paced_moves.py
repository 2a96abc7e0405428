"""Shards that move between simulated brokers under a limit that is far below what the copies need."""

from collections import Counter
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from tests.simulation.cluster.moving_run import asking_often, moving_run
from tidemill.broker import broker
from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.messages import SnapshotPull
from tidemill.raft.replica import Replica
from tidemill.shard.catch_up import CatchUp
from tidemill.storage.journal import shard_log

LIMIT: int = 2_000  # bytes a second
SEEDS = (0, 1, 2, 3)


@pytest.fixture
def waited() -> Iterator[Counter[str]]:
    """Limit what brokers send, make installs frequent, and count what had to wait."""
    counts: Counter[str] = Counter()
    pause, answer = Replica.pause, CatchUp.answer

    def counted_pause(self: Replica, learner: ReplicaKey, *, is_paused: bool) -> None:
        counts["appends"] += is_paused
        pause(self, learner, is_paused=is_paused)

    def counted_answer(self: CatchUp, member: ReplicaKey, pull: SnapshotPull) -> None:
        answer(self, member, pull)
        counts["pulls"] += member in self._held

    with (
        patch.object(broker, "move_bytes_per_s", lambda _: LIMIT),
        patch.object(shard_log, "NEEDED_ENTRIES_MAX", 4),
        patch.object(Replica, "pause", counted_pause),
        patch.object(CatchUp, "answer", counted_answer),
        asking_often(),
    ):
        yield counts


@pytest.mark.timeout(600)
def test_a_cluster_heals_under_a_low_limit(waited: Counter[str]) -> None:
    """
    Copies wait, and end all the same: every acknowledged record is read once and in order, and in the end exactly the
    planned brokers have a replica, with the same bytes.
    """
    for seed in SEEDS:
        moving_run(seed, 4).run()

    assert {"appends", "pulls"} == {kind for kind, count in waited.items() if count}
