"""
Shards queue more rows than the ring holds and truncate some of them while they wait; the store must write all the
others.

Each seed draws followers with changing leaders, a ring of a few pages, and the times of background work.  At intervals,
every disk that a power loss could leave is opened and compared with the model.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulation.planted_bugs import find_planted_bug
from tests.simulation.store.crash_exploration import model_of
from tests.simulation.store.store_script import KEY, ME, PEER, agreed_index, descriptor
from tidemill.batches.builder import build_batch
from tidemill.model.shard import ShardId
from tidemill.raft.entry import BATCH, Entry
from tidemill.simulation.machine.crash_points import UNIFORM
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.store.store_check import differences
from tidemill.simulation.store.store_driver import StoreDriver
from tidemill.simulation.store.store_model import StoreHistory, StoreModel
from tidemill.storage import store
from tidemill.storage.checkpoint.checkpointer import Checkpointer
from tidemill.storage.journal import row_queue
from tidemill.storage.journal.row import RowKind
from tidemill.storage.partition.partition_log import LogConfig
from tidemill.storage.recovery import initialize_directory, open_store
from tidemill.storage.store import StoreOptions

SEEDS = range(2_000) if os.environ.get("TIDEMILL_EVERY_TEAR") else range(120)
SHARDS = (ShardId(1), ShardId(2), ShardId(3))
ACTIONS = 60
PAGE = 4096


class Run:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        pages = random.choice((4, 6, 9, 16))
        self.options = StoreOptions(
            journal_first_bytes=pages * PAGE,
            journal_file_bytes=2 * PAGE,
            journal_bytes_max=random.choice((pages, pages + 4)) * PAGE,
            block_bytes_max=random.choice((1, 2, 4)) * PAGE,
            cache_bytes_max=random.choice((0, PAGE)),
            checkpoint_bytes=pages * PAGE // 2,
        )
        self.disk = SimulatedDisk()
        initialize_directory(self.disk, KEY, self.options)
        opened, _ = open_store(self.disk, KEY, self.options)
        self.history = StoreHistory(StoreModel(), 0)
        config = LogConfig(segment_bytes=random.choice((3_000, 9_000)), index_interval_bytes=1024)
        self.driver = StoreDriver(opened, self.disk, self.history, config)
        self.driver.write_back_bytes_min = random.choice((0, 2 * PAGE))
        self.driver.in_flight_max = 2 - seed % 2
        self.now_ms = 1_000
        self.opened = 0

    def run(self) -> None:
        random, driver = self.random, self.driver
        for number, shard_id in enumerate(SHARDS):
            driver.open_shard(shard_id, descriptor(3, 2 * number, 2, ME, PEER))
            driver.vote(shard_id, 1, PEER)
        actions = [self._append] * 5 + [self._truncate] * 2 + [self._block] * 4
        actions += [
            self._vote,
            self._commit,
            self._trim,
            self._background_step,
            self._checkpoint,
            self._fill_disk,
            self._crash,
        ]
        for _ in range(ACTIONS):
            self.now_ms += 10
            random.choice(actions)()
        self.disk.free_bytes = None
        driver.drain()
        driver.block(empty=True)
        self._crash()

    def _log(self) -> Any:
        return self.driver.store.shards[self.random.choice(SHARDS)]

    def _append(self) -> None:
        random, log = self.random, self._log()
        most = min(9_000, self.driver.store.batch_bytes_max - 200)
        for _ in range(random.choice((1, 1, 3, 8))):
            partition = random.choice([*log.partitions.values()])
            value = random.randbytes(random.choice((50, 1_000, 3_000, most)))
            producer = random.choice((-1, 7))
            newest = partition.producers.newest().get(producer)
            payload = build_batch(
                [(None, value, (), self.now_ms)],
                base_offset=partition.end_offset,
                leader_epoch=log.term,
                producer_id=producer,
                producer_epoch=-1 if producer < 0 else 0,
                base_sequence=-1 if producer < 0 else newest.last_sequence + 1 if newest else 0,
            )
            entry = Entry(BATCH, payload, partition.partition, partition.end_offset, 1, self.now_ms)
            entry.index, entry.term = log.last_index + 1, log.term
            self.driver.append(log.shard_id, [entry])

    def _vote(self) -> None:
        log = self._log()
        self.driver.vote(log.shard_id, log.term + 1, self.random.choice((ME, PEER, None)))

    def _truncate(self) -> None:
        """Truncate a follower's log, as if another leader had been elected."""
        log = self._log()
        if log.last_index > log.commit_index:
            self.driver.vote(log.shard_id, log.term + 1, None)
            self.driver.truncate(log.shard_id, self.random.randint(log.commit_index + 1, log.last_index))

    def _commit(self) -> None:
        log, history = self._log(), self.history
        durable = history.models[history.acknowledged].shards.get(log.shard_id)
        if durable is not None:
            self.driver.commit(log.shard_id, agreed_index(durable.entries, log))

    def _trim(self) -> None:
        self._commit()
        log = self._log()
        for number, partition in log.partitions.items():
            ends = [it.base_offset + 1 for it in log.entries if it.kind == BATCH and it.partition == number]
            ends = [end for end in ends if partition.trimmed < end <= self._committed_end(log, number)]
            if ends:
                self.driver.trim(log.shard_id, number, self.random.choice(ends))

    def _committed_end(self, log: Any, number: int) -> int:
        ends = [
            it.base_offset + 1
            for it in log.entries
            if it.kind == BATCH and it.partition == number and it.index <= log.commit_index
        ]
        return max(ends, default=0)

    def _block(self) -> None:
        self.driver.block()

    def _background_step(self) -> None:
        for _ in range(self.random.randint(1, 10)):
            self.driver.background_step()

    def _checkpoint(self) -> None:
        if self.driver.store.can_checkpoint:
            self.driver.store.begin_checkpoint()

    def _fill_disk(self) -> None:
        self.disk.free_bytes = None if self.disk.free_bytes is not None else self.random.choice((0, 5_000))

    def _crash(self) -> None:
        for disk in [self.disk.after_kill(), *[self.disk.after_power_loss(fate) for fate in UNIFORM]]:
            disk.free_bytes = None
            again, found = open_store(disk, KEY, self.options)
            self.opened += 1
            sequence = again.journal.sequence
            assert not found.damaged, found.damaged
            assert self.history.acknowledged <= sequence <= self.history.gathered
            model = model_of(again, self.history)
            assert model is not None
            assert [] == list(differences(model, again, disk))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_small_ring_catches_up(seed: int) -> None:
    """
    With a small ring, everything queued is eventually written, and a crash in the meantime loses nothing acknowledged.
    """
    run = Run(seed)

    run.run()

    assert not run.driver.store.has_pending
    assert run.opened >= 3


# The planted bugs.


@contextmanager
def checkpoints_wait_for_truncations() -> Iterator[None]:
    """Let checkpoints wait for queued truncations, and truncations for space, which only a checkpoint can free."""
    choose, take = Checkpointer.capture_state, row_queue.RowQueue.take

    def patient(self: Any) -> None:
        if not any(row.kind == RowKind.TRUNCATE for _, row in self._blocks.rows):
            choose(self)

    def stingy(self: Any, journal: Any, bytes_max: int) -> Any:
        return [] if journal.free_for_entries < PAGE else take(self, journal, bytes_max)

    with patch.object(Checkpointer, "capture_state", patient), patch.object(row_queue.RowQueue, "take", stingy):
        yield


@contextmanager
def keeps_a_stale_checkpoint_capture() -> Iterator[None]:
    """Let a checkpoint keep a capture that predates a truncation, and so wait for rows that are never written back."""
    truncate = store.Store.truncate

    def careless(self: Any, *arguments: Any) -> None:
        capture = self.checkpoints.capture
        truncate(self, *arguments)
        self.checkpoints.capture = capture

    with patch.object(store.Store, "truncate", careless):
        yield


@contextmanager
def trims_what_it_finds() -> Iterator[None]:
    """Let recovery choose the segments to trim by what it has replayed so far, not by the TRIMMED row."""
    put = row_queue.RowQueue.put_control_row

    def plain(self: Any, shard_id: Any, row: Any) -> None:
        if row.kind == RowKind.TRIMMED:
            row.record_count = 0
        put(self, shard_id, row)

    with patch.object(row_queue.RowQueue, "put_control_row", plain):
        yield


@pytest.mark.parametrize(
    ("planted", "first_seed"),
    [(checkpoints_wait_for_truncations, 7), (keeps_a_stale_checkpoint_capture, 79), (trims_what_it_finds, 50)],
)
def test_a_planted_bug_is_found(planted: Any, first_seed: int, explored: list[str]) -> None:
    """
    Each planted bug is found by one of the first seeds.  `first_seed`, which has found it before, is tried first, to
    save time.
    """
    name = f"Small ring, {planted.__name__}"
    explored.append(find_planted_bug(name, planted, lambda seed: Run(seed).run(), (first_seed, *range(120))))
