"""An install over real stores that is interrupted at any operation of the follower's disk resumes and copies all bytes.

`TIDEMILL_EVERY_TEAR=1` runs more seeds.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulation.planted_bugs import find_planted_bug
from tests.simulation.store.install_pair import FOLLOWER, Pair, Side
from tidemill.raft.replica import Replica
from tidemill.shard import catch_up
from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.simulation.machine.crash_points import UNIFORM
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.disk_operation import Operation
from tidemill.storage.install import install_copy
from tidemill.storage.install.install_copy import InstallCopy
from tidemill.storage.journal import row_queue
from tidemill.storage.journal.row import RowKind

IS_SOAK = bool(os.environ.get("TIDEMILL_EVERY_TEAR"))
SEEDS = range(60) if IS_SOAK else range(6)


class LostPromise(AssertionError):
    """The install broke a promise.  The message names the place in the run."""


def explore(seed: int) -> int:
    """Explore the installs of one seed and return how many disks were opened.  Raise `LostPromise` if one breaks a
    promise.
    """
    pair = Pair(seed)
    follower = pair.follower
    pair.marks = dict(follower.marks)
    crashed: dict[bytes, tuple[SimulatedDisk, str]] = {}
    watch(follower.disk, crashed)
    finish(pair, follower, "the run")
    follower.disk.before_operation = None
    random = Random(seed)
    for number, (disk, where) in enumerate(crashed.values()):
        again: dict[bytes, tuple[SimulatedDisk, str]] = {}
        if number % 7 == 0:
            watch(disk, again)
        finish(pair, opened(disk, where), where)
        disk.before_operation = None
        for twice, where_twice in random.sample(list(again.values()), min(2, len(again))):
            finish(pair, opened(twice, where_twice), f"{where}; then {where_twice}")
    return len(crashed)


def watch(disk: SimulatedDisk, crashed: dict[bytes, tuple[SimulatedDisk, str]]) -> None:
    """Collect the disks that a crash before each operation could leave."""

    def visit(operation: Operation) -> None:
        for fate in UNIFORM:
            after = disk.after_power_loss(fate)
            crashed.setdefault(after.digest(), (after, f"before {operation}, {fate}"))
        after = disk.after_kill()
        crashed.setdefault(after.digest() + b"killed", (after, f"before {operation}, killed"))

    disk.before_operation = visit


def opened(disk: SimulatedDisk, where: str) -> Side:
    try:
        return Side(FOLLOWER, disk)
    except AssertionError as problem:
        raise LostPromise(f"{where}: {problem}") from problem


def finish(pair: Pair, follower: Side, where: str) -> None:
    pair.begin_again()
    for sentence in pair.lost(follower):
        raise LostPromise(f"{where}: {sentence}")
    try:
        pair.exchange(follower)
        problems = pair.differences(follower)
    except Exception as problem:
        raise LostPromise(f"{where}: {type(problem).__name__}: {problem}") from problem
    for sentence in problems:
        raise LostPromise(f"{where}: {sentence}")
    for sentence in pair.differences(opened(follower.disk.after_power_loss(ALL_LOST), f"{where}; continued")):
        raise LostPromise(f"{where}; continued, all lost: {sentence}")


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", SEEDS)
def test_an_install_interrupted_anywhere_resumes(seed: int, explored: list[str]) -> None:
    """An install that is interrupted at any operation resumes, loses no committed entry, and finally makes the follower
    equal to the leader.
    """
    began = time.perf_counter()

    disks = explore(seed)

    assert disks > 50
    explored.append(f"Installs, seed {seed}: {disks} disks opened, {time.perf_counter() - began:.0f} s")


def test_an_install_does_not_copy_equal_data() -> None:
    """An install does not copy equal data: a follower that lacks entries but no records catches up without a chunk."""
    pair = Pair(1)
    pair.exchange()
    leader, follower = pair.leader, pair.follower
    pair._lead()  # appends an entry without records
    pair.drop_rows()
    follower.out.clear()
    leader.out.clear()
    files = [path for path in follower.disk.file_paths() if path.endswith(".log")]
    sizes = {path: follower.disk.open(path).size() for path in files}
    chunks: list[Any] = []

    with patch.object(InstallCopy, "write", lambda *arguments: chunks.append(arguments)):
        pair.exchange()

    assert [] == chunks
    assert sizes == {path: follower.disk.open(path).size() for path in files}
    assert [] == pair.differences(follower)


# The planted bugs.


@contextmanager
def answers_before_it_is_durable() -> Iterator[None]:
    installed = Replica.installed

    def early(self: Any, membership: Any) -> None:
        index = self.installing[0]
        installed(self, membership)
        self._log.durable_index = index
        self._follower.install_is_durable()

    def dropped(self: Any, shard_id: Any, rows: Any) -> None:
        if rows[-1].kind != RowKind.INSTALLED:  # the INSTALLED row is never written, as if power were lost first
            put(self, shard_id, rows)

    put = row_queue.RowQueue.put
    with patch.object(Replica, "installed", early), patch.object(row_queue.RowQueue, "put", dropped):
        yield


@contextmanager
def cuts_below_the_high_watermark() -> Iterator[None]:
    """Copy everything without checking which entries are committed."""
    init = InstallCopy.__init__

    def careless(self: Any, disk: Any, log: Any, _: Any) -> None:
        init(self, disk, log, dict.fromkeys(log.partitions, 0))

    with (
        patch.object(install_copy, "meeting_offset", lambda *_: None),
        patch.object(InstallCopy, "__init__", careless),
    ):
        yield


@contextmanager
def does_not_sync_what_it_copied() -> Iterator[None]:
    def lazy(self: Any) -> None:
        self.bytes_since_sync = 0

    with patch.object(InstallCopy, "sync", lazy):
        yield


@contextmanager
def cleans_before_the_row_is_durable() -> Iterator[None]:
    begin = InstallCopy.begin

    def hasty(self: Any, theirs: Any) -> Any:
        found = begin(self, theirs)
        self.clean()
        return found

    with patch.object(InstallCopy, "begin", hasty):
        yield


@contextmanager
def keeps_what_differs() -> Iterator[None]:
    def blind(ours: Any, our_end: int, theirs: Any, their_end: int) -> int:
        return min(our_end, their_end)

    with patch.object(install_copy, "meeting_offset", blind):
        yield


@contextmanager
def snapshots_have_no_sections() -> Iterator[None]:
    with patch.object(catch_up, "encode_sections", lambda *_: bytes(4)):
        yield


MUTANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "answers before it is durable": answers_before_it_is_durable,
    "cuts below the high watermark": cuts_below_the_high_watermark,
    "does not sync what it copied": does_not_sync_what_it_copied,
    "cleans before the row is durable": cleans_before_the_row_is_durable,
    "keeps what differs": keeps_what_differs,
    "snapshots have no sections": snapshots_have_no_sections,
}


FIRST_SEEDS = {"cleans before the row is durable": 4, "keeps what differs": 1}  # of the others: 0


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str, explored: list[str]) -> None:
    """
    Each planted bug is found by one of the first seeds.  The one in `FIRST_SEEDS`, which has found it before, is tried
    first, to save time.
    """
    seeds = (FIRST_SEEDS.get(name, 0), *range(12))
    explored.append(find_planted_bug(f"Install mutant, {name}", MUTANTS[name], explore, seeds, (LostPromise,)))
