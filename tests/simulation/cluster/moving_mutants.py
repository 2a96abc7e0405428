"""Plants bugs in the code that closes replicas and opens them again; the simulated moves must find them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from tidemill.broker.maintenance.membership_reconciler import MembershipReconciler
from tidemill.broker.maintenance.replica_releases import ReplicaReleases
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.model.shard import METADATA_SHARD
from tidemill.shard.shard import NEAR_ROWS
from tidemill.storage.journal.row_queue import RowQueue
from tidemill.storage.store import Store


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
def forgets_its_term_and_its_vote() -> Iterator[None]:
    open_shard = Store.open_shard

    def forgetful(self: Any, shard_id: Any, descriptor: Any) -> Any:
        if shard_id in self.closed:
            self.closed[shard_id] = replace(self.closed[shard_id], term=0, voted_for=None)
        return open_shard(self, shard_id, descriptor)

    with patch.object(Store, "open_shard", forgetful):
        yield


@contextmanager
def votes_with_an_empty_log() -> Iterator[None]:
    open_shard = Store.open_shard

    def forgetful(self: Any, shard_id: Any, descriptor: Any) -> Any:
        if shard_id in self.closed:
            self.closed[shard_id] = replace(self.closed[shard_id], last_index=0, last_term=0)
        return open_shard(self, shard_id, descriptor)

    with patch.object(Store, "open_shard", forgetful):
        yield


@contextmanager
def counts_members_without_the_last_change() -> Iterator[None]:
    def caught_up(self: Any, replica: Any) -> list[Any]:
        near = [it for it, match in replica.matches.items() if replica.commit_index - match <= NEAR_ROWS]
        return [replica.me, *filter(self._cluster.is_alive, near)]

    with patch.object(MembershipReconciler, "_caught_up", caught_up):
        yield


@contextmanager
def opens_while_files_are_removed() -> Iterator[None]:
    with patch.object(Store, "may_open", lambda self, shard_id: True):
        yield


@contextmanager
def writes_rows_after_closing() -> Iterator[None]:
    with patch.object(RowQueue, "drop", lambda self, shard_id: None):
        yield


MUTANTS = (
    MovingMutant(closes_without_asking, 0),
    MovingMutant(never_opens_again, 0),
    MovingMutant(forgets_its_term_and_its_vote, 0),
    MovingMutant(votes_with_an_empty_log, 0),
    MovingMutant(counts_members_without_the_last_change, 0),
    MovingMutant(opens_while_files_are_removed, 0),
    MovingMutant(writes_rows_after_closing, 0),
)
