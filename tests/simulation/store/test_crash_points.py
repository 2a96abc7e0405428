"""After a power loss, a kill or a failed sync at any operation, the store has everything that was acknowledged and
nothing that was never written.

`TIDEMILL_EVERY_TEAR=1` tears each page at every sector and runs more scripts.
"""

import os
import time

import pytest

from tests.simulation.store.crash_exploration import Explorer
from tests.simulation.store.store_script import KEY, OPTIONS
from tidemill.model.broker_id import BrokerId, DirectoryId
from tidemill.simulation.machine.crash_fate import ALL_KEPT, ALL_LOST, Mix
from tidemill.simulation.machine.crash_points import lone_fates
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.disk_operation import Operation
from tidemill.storage.data_directory import Identity, read_identity, write_identity
from tidemill.storage.recovery import initialize_directory, open_store

IS_SOAK = bool(os.environ.get("TIDEMILL_EVERY_TEAR"))
SOAK_SEEDS = range(1, 9)
SHARES = 4  # the crash points are divided among this many tests, so that all cores are used
# The script must execute each of these actions several times.
ACTIONS = ("rolls", "segments_removed", "partitions_deleted", "truncations", "pairs")


def explore(explorer: Explorer, seed: int, explored: list[str], rounds: int = 25) -> None:
    began = time.perf_counter()
    explorer.run(seed, rounds)
    seconds = time.perf_counter() - began
    explored.append(
        f"Crash points, script {seed}: {explorer.operations} operations, {explorer.laps} laps of the journal, "
        f"{explorer.blocks} blocks, {explorer.checkpoints} checkpoints; "
        f"{explorer.visits} disks derived, {explorer.states} opened, {seconds:.0f} s"
    )


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("share", range(SHARES))
def test_every_crash_point_keeps_the_promises(share: int, explored: list[str]) -> None:
    """The store keeps its promises if, before any operation of the run or of a recovery, power is lost with any fate of
    unsynced data, the process is killed, or a sync fails.
    """
    explorer = Explorer(thinned=1, share=(share, SHARES))

    explore(explorer, 1, explored, rounds=30)

    assert explorer.operations >= 400
    assert explorer.laps >= 3
    assert explorer.states >= 20_000 // SHARES
    assert explorer.checkpoints >= 5
    assert min(explorer.counts[action] for action in ACTIONS) >= 2, explorer.counts


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_other_scripts_keep_the_promises(seed: int, explored: list[str]) -> None:
    """
    Scripts that take their actions in a different order keep the promises, too.  Only some of the fates are tried at
    each crash point.
    """
    explorer = Explorer(thinned=60)

    explore(explorer, seed, explored)

    assert explorer.laps >= 3


@pytest.mark.skipif(not IS_SOAK, reason="takes minutes each: TIDEMILL_EVERY_TEAR=1, or make soak")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", SOAK_SEEDS)
def test_every_tear_of_every_page_keeps_the_promises(seed: int, explored: list[str]) -> None:
    """The store keeps its promises when a power loss writes only one unsynced page, torn at any of its sectors."""
    explorer = Explorer(thinned=1, every_tear=True, resume_every=10)

    explore(explorer, seed, explored)

    assert explorer.laps >= 3


def test_an_interrupted_initialization_of_a_directory_can_be_repeated() -> None:
    """
    If the first attempt left no identity, a directory can be initialized again; if it left one, the directory has
    everything that a start needs.
    """
    disk = SimulatedDisk()
    identity = Identity(
        cluster_id="c" * 22, broker_id=BrokerId(1), directory_id=DirectoryId(b"d" * 16), journal_key=KEY
    )
    opened: list[bool] = []

    def visit(operation: Operation) -> None:
        fates = [ALL_KEPT, ALL_LOST, *lone_fates(disk, salt=operation.number, every_tear=True), Mix(operation.number)]
        for after in (*(disk.after_power_loss(fate) for fate in fates), disk.after_kill()):
            has_identity = read_identity(after) is not None
            if not has_identity:
                initialize_directory(after, KEY, OPTIONS)
                write_identity(after, identity)
            open_store(after, KEY, OPTIONS)
            opened.append(has_identity)

    disk.before_operation = visit
    initialize_directory(disk, KEY, OPTIONS)
    write_identity(disk, identity)
    visit(Operation(disk.operations + 1, disk.log[-1].kind, ""))

    assert {False, True} == set(opened)
