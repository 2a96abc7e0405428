"""The identity of a directory; an unreadable identity is never mistaken for a missing one."""

import pytest

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.storage.data_directory import DirectoryProblem, Identity, read_identity, write_identity

IDENTITY = Identity(
    cluster_id="abcdefghijklmnopqrstuv",
    broker_id=BrokerId(3),
    directory_id=DirectoryId(bytes(range(16))),
    journal_key=bytes(range(16, 32)),
)


def test_an_identity_survives_a_power_loss() -> None:
    """The identity survives a power loss, and is read as it was written."""
    disk = SimulatedDisk()
    write_identity(disk, IDENTITY)

    assert IDENTITY == read_identity(disk.after_power_loss(ALL_LOST))
    assert ReplicaKey(BrokerId(3), DirectoryId(bytes(range(16)))) == IDENTITY.voter


def test_an_empty_directory_has_no_identity() -> None:
    """An empty directory has no identity, and may be initialized."""
    assert read_identity(SimulatedDisk()) is None


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"{", "cannot be read"),
        (b"{}", "cannot be read"),
        (b'{"format": 9}', "format 9; this program reads format 2: start the newer version"),
        (b'{"format": 1}', "format 1; this program reads format 2: .* use an empty log.dirs"),
        (b"[1]", "cannot be read"),
    ],
)
def test_an_identity_that_cannot_be_read_is_refused(content: bytes, word: str) -> None:
    """The message about an unreadable identity tells the operator what to do."""
    disk = SimulatedDisk()
    disk.open("identity.json", create=True).write(0, [content])

    with pytest.raises(DirectoryProblem, match=word):
        read_identity(disk)
