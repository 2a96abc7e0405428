"""Plants bugs in the production code of a broker; the simulated clusters must find them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from tests.simulation.raft.raft_mutants import (
    a_learner_counts,
    follower_answers_before_its_sync,
    leader_counts_itself_before_its_sync,
    majority_is_half,
    votes_for_a_shorter_log,
)
from tests.simulation.store.mutants import answers_before_its_sync
from tidemill.raft.entry import BATCH
from tidemill.raft.replica import Replica
from tidemill.shard.shard import Shard
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.storage.checkpoint import checkpointer
from tidemill.storage.install.install_copy import InstallCopy
from tidemill.storage.machine.producer_machine import ProducerStateMachine
from tidemill.storage.partition.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs


@dataclass(frozen=True, slots=True)
class ClusterMutant:
    name: str
    planted: Callable[[], AbstractContextManager[None]]
    brokers: int = 3
    seeds_max: int = 40
    adapt: Callable[[ClusterKnobs], ClusterKnobs] = lambda knobs: knobs


@contextmanager
def checkpoints_before_segments_are_synced() -> Iterator[None]:
    with patch.object(checkpointer, "sync_segment", lambda segment, known: None):
        yield


@contextmanager
def forgets_producers() -> Iterator[None]:
    appended = ProducerStateMachine.appended

    def forgetful(self: Any, entry: Any, header: Any, commit_index: int) -> None:
        if entry.header is not None:  # this process received the entry; recovery did not read it
            appended(self, entry, header, commit_index)

    with patch.object(ProducerStateMachine, "appended", forgetful):
        yield


@contextmanager
def serves_uncommitted_records() -> Iterator[None]:
    propose = Shard.propose

    def eager(self: Any, entry: Any) -> int:
        index = propose(self, entry)
        if entry.kind == BATCH:
            self.partitions[entry.partition].high_watermark = entry.base_offset + entry.record_count
            self.partitions[entry.partition].notify()
        return index

    with patch.object(Shard, "propose", eager):
        yield


@contextmanager
def serves_upon_election() -> Iterator[None]:
    """
    Let a leader serve before an entry of its own term has committed, although earlier leaders may have acknowledged
    more records than this leader knows to be committed (KIP-207).
    """
    with patch.object(Replica, "is_confirmed", property(lambda self: self.leads)):
        yield


@contextmanager
def epochs_end_with_the_log() -> Iterator[None]:
    end_offset = LeaderEpochs.end_offset

    def late(self: Any, epoch: int, log_end: int) -> tuple[int, int]:
        found, end = end_offset(self, epoch, log_end)
        return found, end if found == UNDEFINED_EPOCH else log_end

    with patch.object(LeaderEpochs, "end_offset", late):
        yield


@contextmanager
def installed_before_its_files_are_synced() -> Iterator[None]:
    def sync(self: Any) -> None:
        self._unsynced.clear()
        self.bytes_since_sync = 0
        for log in self._logs.values():
            log.close()

    with patch.object(InstallCopy, "sync", sync):
        yield


def with_lost_disks(knobs: ClusterKnobs) -> ClusterKnobs:
    """Return knobs with which disks are wiped often, so that voters are replaced and catch up by installs."""
    options = replace(knobs.options, tail_entries=1)
    return replace(knobs, wipe=0.2, kill=0.1, power=0.2, partition=0.2, lasting_pages=0.0, options=options)


def with_lost_power(knobs: ClusterKnobs) -> ClusterKnobs:
    return replace(knobs, power=0.3, power_of_all=0.2, lasting_pages=0.0)


MUTANTS = (
    ClusterMutant(
        "installed before its files are synced", installed_before_its_files_are_synced, adapt=with_lost_disks
    ),
    ClusterMutant("a learner counts", a_learner_counts, adapt=with_lost_disks),
    ClusterMutant("one broker answers before its sync", answers_before_its_sync, brokers=1),
    ClusterMutant("brokers answer before their sync", answers_before_its_sync, adapt=with_lost_power),
    ClusterMutant("checkpoints before segments are synced", checkpoints_before_segments_are_synced, brokers=1),
    ClusterMutant("forgets replayed producers", forgets_producers, brokers=1),
    ClusterMutant("followers forget producers", forgets_producers),
    ClusterMutant("one broker serves uncommitted records", serves_uncommitted_records, brokers=1),
    ClusterMutant("brokers serve uncommitted records", serves_uncommitted_records),
    ClusterMutant("serves upon election", serves_upon_election),
    ClusterMutant("epochs end with the log", epochs_end_with_the_log),
    ClusterMutant("half the voters are a majority", majority_is_half),
    ClusterMutant("votes for a shorter log", votes_for_a_shorter_log),
    ClusterMutant("a follower answers before its sync", follower_answers_before_its_sync),
    ClusterMutant("the leader counts itself before its sync", leader_counts_itself_before_its_sync),
)
