"""Moves everything in a data directory to a subdirectory, where an operator can inspect it.

The identity is copied, not moved: if the broker is stopped before it has a new identity, the next start finds only the
old identity and rejoins under the broker id that the cluster knows.
"""

from typing import Final

from tidemill.storage import paths
from tidemill.storage.disk import Disk

MOVED: Final = (paths.JOURNAL, paths.TOPICS, paths.checkpoint_file(0), paths.checkpoint_file(1))


def set_aside(disk: Disk, name: str) -> int:
    """
    Durably move the journal, topics and checkpoints, if any, into subdirectory `name`.  Return their size in bytes.
    """
    found = [path for path in MOVED if disk.exists(path)]
    if not found:
        return 0
    disk.make_directory(name)
    size = 0
    _copy(disk, paths.IDENTITY, f"{name}/{paths.IDENTITY}")
    disk.sync_directory(name)
    disk.sync_directory("")  # the subdirectory must be durable before files are moved into it
    for path in found:
        size += _bytes_of(disk, path)
        disk.rename(path, f"{name}/{path}")
    disk.sync_directory(name)
    disk.sync_directory("")
    return size


def _copy(disk: Disk, path: str, to: str) -> None:
    source, copy = disk.open(path), disk.open(to, create=True)
    try:
        copy.write(0, [source.read(0, source.size())])
        copy.sync()
    finally:
        source.close()
        copy.close()


def _bytes_of(disk: Disk, path: str) -> int:
    if path in (paths.JOURNAL, paths.TOPICS):
        return _bytes_below(disk, path, depth=1 if path == paths.JOURNAL else 3)
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()


def _bytes_below(disk: Disk, directory: str, depth: int) -> int:
    """Return the total size of all files `depth` levels below `directory`: topics → partitions → segments."""
    found = [f"{directory}/{name}" for name in disk.list(directory)]
    return sum(_bytes_of(disk, path) if depth == 1 else _bytes_below(disk, path, depth - 1) for path in found)
