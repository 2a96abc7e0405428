"""Plants bugs in the code that closes replicas and opens them again; the simulated moves must find them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tidemill.broker.maintenance.membership_reconciler import MembershipReconciler
from tidemill.broker.maintenance.replica_releases import ReplicaReleases
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.model.shard import METADATA_SHARD
from tidemill.shard.shard import NEAR_ROWS


@dataclass(frozen=True, slots=True)
class MovingMutant:
    planted: Callable[[], AbstractContextManager[None]]
    seed: int  # that has found it


@contextmanager
def closes_without_asking() -> Iterator[None]:
    def tick(self: Any, image: Any) -> None:
        table = self._shard_table
        for shard_id, shard in [*table.shards.items()]:
            planned = image.shards.get(shard_id)
            if planned is not None and self._cluster.me not in planned.replicas and shard_id != METADATA_SHARD:
                table._release(shard)

    with patch.object(ReplicaReleases, "tick", tick):
        yield


@contextmanager
def never_opens_again() -> Iterator[None]:
    create = ShardTable._create

    def once(self: Any, topic: Any, planned: Any) -> Any:
        return None if planned.shard_id in self._store.closed else create(self, topic, planned)

    with patch.object(ShardTable, "_create", once):
        yield


@contextmanager
def counts_members_without_the_last_change() -> Iterator[None]:
    def caught_up(self: Any, replica: Any) -> list[Any]:
        near = [it for it, match in replica.matches.items() if replica.commit_index - match <= NEAR_ROWS]
        return [replica.me, *filter(self._cluster.is_alive, near)]

    with patch.object(MembershipReconciler, "_caught_up", caught_up):
        yield


MUTANTS = (
    MovingMutant(closes_without_asking, 1),
    MovingMutant(never_opens_again, 0),
    MovingMutant(counts_members_without_the_last_change, 34),
)
