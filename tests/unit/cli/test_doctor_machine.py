"""The facts about a machine that `tidemill doctor` collects."""

import socket
from pathlib import Path

import pytest

from tidemill.cli.doctor_machine import SYNCS_MAX, file_system_of, java_version_in, port_problem, sync_seconds


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.12" 2024-07-16\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_292"\n', 8),
        ('openjdk version "21" 2023-09-19\n', 21),
        ("bash: java: command not found", None),
    ],
)
def test_the_version_of_java_is_read(text: str, version: int | None) -> None:
    """
    Both the old and the new scheme of version numbers are understood.
    """
    assert version == java_version_in(text)


def test_a_port_in_use_is_noticed() -> None:
    """
    A port is not free while a program listens on it, and is free again afterwards.
    """
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
        while_used = port_problem(number)
    afterwards = port_problem(number)

    assert ("address already in use", None) == (while_used, afterwards)


def test_the_file_system_is_that_of_the_deepest_mount(tmp_path: Path) -> None:
    """
    A directory is on the file system whose mount point is the deepest above it.  If several are mounted at the same
    place, the last one hides the others.
    """
    inner = tmp_path / "with space" / "data"
    inner.mkdir(parents=True)
    escaped = str(inner.parent).replace(" ", "\\040")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nnone {escaped} ext4 rw 0 0\nnone {escaped} xfs rw 0 0\n")

    assert ("xfs", "ext4") == (file_system_of(inner, mounts), file_system_of(tmp_path, mounts))
    assert file_system_of(inner, tmp_path / "missing") is None


def test_measuring_syncs_leaves_nothing_behind(tmp_path: Path) -> None:
    """
    The number of measured syncs is bounded, and the file that was written for them is removed afterwards.
    """
    durations = sync_seconds(tmp_path)

    assert 1 <= len(durations) <= SYNCS_MAX and min(durations) > 0
    assert [] == list(tmp_path.iterdir())
