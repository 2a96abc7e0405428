"""Put everything of a data directory out of the way, and lose nothing: a subdirectory that an operator can look into.

The identity goes last: whoever is stopped on the way finds the rest gone at the next start, and begins again.
"""

from tidemill.storage import paths
from tidemill.storage.disk import Disk


def set_aside(disk: Disk, name: str) -> int:
    """Into the subdirectory `name`; durable.  How many bytes its files have."""
    disk.make_directory(name)
    size = 0
    moved = [paths.JOURNAL, paths.TOPICS, paths.checkpoint_file(0), paths.checkpoint_file(1), paths.IDENTITY]
    for path in moved:
        if path == paths.IDENTITY:
            disk.sync_directory(name)
            disk.sync_directory("")
        if disk.exists(path):
            size += _bytes_of(disk, path)
            disk.rename(path, f"{name}/{path}")
    disk.sync_directory(name)
    disk.sync_directory("")
    return size


def _bytes_of(disk: Disk, path: str) -> int:
    if path in (paths.JOURNAL, paths.TOPICS):
        return _bytes_below(disk, path, depth=1 if path == paths.JOURNAL else 3)
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()


def _bytes_below(disk: Disk, directory: str, depth: int) -> int:
    """Of files so many levels below: topics have directories of partitions, and those have segments."""
    found = [f"{directory}/{name}" for name in disk.list(directory)]
    return sum(_bytes_of(disk, path) if depth == 1 else _bytes_below(disk, path, depth - 1) for path in found)
