"""
Plants bugs in the code that adds replicas, closes them and opens them again: each leaves out a rule, or a part of one
(M4 to M8 of `docs/raft.md`, D2, D4 and D5 of `docs/formats/journal.md`).  The contended moves must find them.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tests.simulation.cluster.contended_run import Focus
from tidemill.broker.maintenance.membership_reconciler import MembershipReconciler
from tidemill.broker.maintenance.replica_releases import ReplicaReleases
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.model.shard import METADATA_SHARD
from tidemill.raft.messages import Released
from tidemill.raft.replica import Replica
from tidemill.shard.shard import NEAR_ROWS
from tidemill.storage.checkpoint import checkpointer
from tidemill.storage.checkpoint.checkpoint import ClosedShard
from tidemill.storage.journal.removals import Removals
from tidemill.storage.journal.row_queue import RowQueue
from tidemill.storage.store import Store


@dataclass(frozen=True, slots=True)
class MovingMutant:
    planted: Callable[[], AbstractContextManager[None]]
    focus: Focus
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
def closes_without_looking_at_the_plan() -> Iterator[None]:
    with patch.object(ShardTable, "_is_planned", lambda self, shard_id: False):
        yield


@contextmanager
def releases_before_the_removal_is_committed() -> Iterator[None]:
    def released(self: Any, sender: Any) -> None:
        memberships = self._log.memberships
        if self.is_confirmed and sender not in memberships.current.members:
            self._outbox.append((sender, Released(term=self.term, index=memberships.changed_at)))

    with patch.object(Replica, "_on_release_request", released):
        yield


@contextmanager
def takes_releases_of_earlier_terms() -> Iterator[None]:
    with patch.object(Replica, "is_released", lambda self, message: not self.leads):
        yield


@contextmanager
def takes_releases_from_before_the_addition() -> Iterator[None]:
    with patch.object(Replica, "is_released", lambda self, message: message.term == self.term and not self.leads):
        yield


@contextmanager
def takes_releases_once_the_addition_has_left_memory() -> Iterator[None]:
    def is_released(self: Any, message: Released) -> bool:
        log, memberships = self._log, self._log.memberships
        is_added_later = (
            self.me in memberships.current.members
            and memberships.changed_at > message.index
            and log.holds(memberships.changed_at, message.term)
        )
        return message.term == self.term and not self.leads and not is_added_later

    with patch.object(Replica, "is_released", is_released):
        yield


@contextmanager
def a_member_returns_in_the_same_term() -> Iterator[None]:
    with patch.object(Replica, "has_removed", lambda self, members: False):
        yield


@contextmanager
def forgets_the_term_of_a_closed_shard() -> Iterator[None]:
    restore = ClosedShard.restore

    def forgetful(self: Any, log: Any) -> None:
        restore(self, log)
        log.term, log.voted_for = 0, None

    with patch.object(ClosedShard, "restore", forgetful):
        yield


@contextmanager
def forgets_the_vote_of_a_closed_shard() -> Iterator[None]:
    restore = ClosedShard.restore

    def forgetful(self: Any, log: Any) -> None:
        restore(self, log)
        log.voted_for = None

    with patch.object(ClosedShard, "restore", forgetful):
        yield


@contextmanager
def votes_by_an_empty_log() -> Iterator[None]:
    restore = ClosedShard.restore

    def empty(self: Any, log: Any) -> None:
        restore(self, log)
        log.restore_boundary(0, 0, 0)

    with patch.object(ClosedShard, "restore", empty):
        yield


@contextmanager
def comes_back_whole() -> Iterator[None]:
    restore = ClosedShard.restore

    def whole(self: Any, log: Any) -> None:
        restore(self, log)
        log.installing = None

    with patch.object(ClosedShard, "restore", whole):
        yield


@contextmanager
def checkpoints_drop_a_shard_that_opens_again() -> Iterator[None]:
    section = checkpointer._section_of

    def dropped(log: Any, queued: Any) -> bytes | None:
        return None if queued is not None and queued.is_opening else section(log, queued)

    with patch.object(checkpointer, "_section_of", dropped):
        yield


@contextmanager
def never_opens_again() -> Iterator[None]:
    create = ShardTable._create

    def once(self: Any, topic: Any, planned: Any) -> Any:
        return None if planned.shard_id in self._store.closed else create(self, topic, planned)

    with patch.object(ShardTable, "_create", once):
        yield


@contextmanager
def opens_again_before_the_files_are_gone() -> Iterator[None]:
    with patch.object(Store, "may_open", lambda self, shard_id: True):
        yield


@contextmanager
def writes_entries_after_the_closing() -> Iterator[None]:
    with patch.object(RowQueue, "drop", lambda self, shard_id: None):
        yield


@contextmanager
def removes_files_before_the_closing_is_durable() -> Iterator[None]:
    steps = Removals.steps

    def early(self: Any, synced_control_rows: int) -> Any:
        return steps(self, max([synced_control_rows, *[number for number, _ in self._shards]]))

    with patch.object(Removals, "steps", early):
        yield


@contextmanager
def counts_members_without_the_last_change() -> Iterator[None]:
    def caught_up(self: Any, replica: Any) -> list[Any]:
        near = [it for it, match in replica.matches.items() if replica.commit_index - match <= NEAR_ROWS]
        return [replica.me, *filter(self._cluster.is_alive, near)]

    with patch.object(MembershipReconciler, "_caught_up", caught_up):
        yield


MUTANTS = (
    # M4
    MovingMutant(closes_without_asking, Focus.LOST_REMOVAL, 0),
    MovingMutant(releases_before_the_removal_is_committed, Focus.LOST_REMOVAL, 0),
    MovingMutant(closes_without_looking_at_the_plan, Focus.LATE_RELEASE, 0),
    # M5
    MovingMutant(takes_releases_of_earlier_terms, Focus.OLD_RELEASE, 0),
    MovingMutant(takes_releases_from_before_the_addition, Focus.OLD_RELEASE, 1),
    MovingMutant(takes_releases_once_the_addition_has_left_memory, Focus.FORGOTTEN_ADDITION, 1),
    # M6 and D5
    MovingMutant(forgets_the_term_of_a_closed_shard, Focus.LATE_ANSWER, 0),
    MovingMutant(forgets_the_vote_of_a_closed_shard, Focus.LATE_ANSWER, 0),
    MovingMutant(votes_by_an_empty_log, Focus.REMOVED_CANDIDATE, 0),
    MovingMutant(comes_back_whole, Focus.LATE_REMOVAL, 0),
    MovingMutant(never_opens_again, Focus.LATE_ANSWER, 0),
    # M7 and M8
    MovingMutant(a_member_returns_in_the_same_term, Focus.LATE_ANSWER, 0),
    MovingMutant(counts_members_without_the_last_change, Focus.UNAWARE_NEWCOMER, 0),
    # D2 and D4
    MovingMutant(removes_files_before_the_closing_is_durable, Focus.CLOSING_WAITS, 0),
    MovingMutant(opens_again_before_the_files_are_gone, Focus.LATE_REMOVAL, 1),
    MovingMutant(writes_entries_after_the_closing, Focus.ENTRIES_WAIT, 0),
    MovingMutant(checkpoints_drop_a_shard_that_opens_again, Focus.OPENING_WAITS, 0),
)
