"""A damaged directory is moved aside, and none of its files is lost."""

from typing import Any

import pytest

from tidemill.model.broker_id import BrokerId, DirectoryId
from tidemill.simulation.machine.crash_fate import ALL_KEPT, ALL_LOST
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.disk_operation import PowerLost
from tidemill.storage.data_directory import Identity, read_identity, write_identity
from tidemill.storage.set_aside import set_aside

IDENTITY = Identity(
    cluster_id="abcdefghijklmnopqrstuv",
    broker_id=BrokerId(1),
    directory_id=DirectoryId(b"d" * 16),
    journal_key=b"k" * 16,
)
MOVED = ["journal", "topics", "checkpoint-0"]


@pytest.fixture
def disk(hand: Any) -> SimulatedDisk:
    """A synced disk with all the files of a data directory."""
    hand.append(3)
    hand.write_all()
    hand.checkpoint()
    disk: SimulatedDisk = hand.disk
    write_identity(disk, IDENTITY)
    return disk.after_power_loss(ALL_LOST)


def test_everything_is_there_under_another_name(disk: SimulatedDisk) -> None:
    """The identity is copied to the new directory, everything else is moved there, and all of this is durable."""
    segment = "topics/" + (b"t" * 16).hex() + "/0/00000000000000000000.log"
    content = disk.open(segment).read(0, 1 << 16)
    files = ["journal/00000001.journal", "checkpoint-0", "checkpoint-1", "identity.json", segment]
    sizes = [disk.open(path).size() for path in files if disk.exists(path) and path != "identity.json"]

    size = set_aside(disk, "damaged-1")

    after = disk.after_power_loss(ALL_LOST)
    assert ["damaged-1", "identity.json"] == [*after.list("")]
    assert content == after.open(f"damaged-1/{segment}").read(0, 1 << 16)
    copy = after.open("damaged-1/identity.json")
    assert copy.read(0, copy.size()) == after.open("identity.json").read(0, copy.size())
    assert sum(sizes) == size


@pytest.mark.parametrize("fate", [ALL_LOST, ALL_KEPT], ids=["lost", "kept"])
def test_a_broker_that_is_stopped_on_the_way_continues(disk: SimulatedDisk, fate: Any) -> None:
    """
    The identity stays in place throughout: without it, the broker would get a different broker id from the one for
    which its replicas are planned.
    """
    stops = 0
    while True:
        stopped = disk.after_power_loss(ALL_LOST)
        stopped.cut_before = stopped.operations + 1 + stops
        try:
            set_aside(stopped, "damaged-1")
            break
        except PowerLost:
            stops += 1
        after = stopped.after_power_loss(fate)
        assert read_identity(after) == IDENTITY
        set_aside(after, "damaged-2")
        assert (IDENTITY, 0) == (read_identity(after), set_aside(after, "damaged-3"))
        for path in MOVED:
            assert len([name for name in ("damaged-1", "damaged-2") if after.exists(f"{name}/{path}")]) == 1

    assert stops >= 7
