"""Gives a broker a small disk of its own, and fills it."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fault.cluster_processes import ClusterProcesses, wait_until

SMALL_BYTES = 600 << 20  # room for the journal, and more free space than the minimum below which writes are refused
FULL, ROOM = '"disk full"', '"disk has room again"'  # log events: the disk has become full, and has room again


@contextmanager
def small_disk(directory: Path) -> Iterator[None]:
    """Mount a small file system at the data directory of a broker, if this process may do that."""
    is_mounted = mount_small(directory)
    try:
        yield
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(directory)], check=True)


def mount_small(directory: Path) -> bool:
    """Make a directory, and mount a small file system there.  Return False if this process may not do that."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tidemill-test", str(directory)]
    return os.geteuid() == 0 and subprocess.run(command, check=False, capture_output=True).returncode == 0


@contextmanager
def full_disk(cluster: ClusterProcesses, number: int, left_bytes: int) -> Iterator[None]:
    """
    Fill the small disk of a broker until the broker notices.  On exit, free the space again and wait until the broker
    notices that, too.  Skip the test if the broker has no small disk.
    """
    directory = cluster.data_directory(number)
    if not os.path.ismount(directory):
        pytest.skip("only root may mount a tmpfs")
    ballast = directory / "ballast"
    full, room = (cluster.log_of(number).count(what) for what in (FULL, ROOM))
    try:
        fill(ballast, left_bytes)
        wait_until(lambda: cluster.log_of(number).count(FULL) > full, "the event 'disk full'")
        yield
    finally:
        ballast.unlink()
    wait_until(lambda: cluster.log_of(number).count(ROOM) > room, "free space")


def fill(ballast: Path, left_bytes: int) -> None:
    """Fill the disk until only `left_bytes` are free, even if the broker is writing at the same time."""
    with ballast.open("wb") as file:
        while (bytes_wanted := free_bytes(ballast.parent) - left_bytes) > 0:
            try:
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, bytes_wanted)
            except OSError as problem:
                if problem.errno != errno.ENOSPC:  # ENOSPC means that the broker has used up the space first
                    raise


def free_bytes(directory: Path) -> int:
    free = os.statvfs(directory)
    return free.f_bavail * free.f_frsize
