"""What a path is to the Disk port: one law for every twin, so that none can be led out of the data directory."""

from typing import Final

LOCK_NAME: Final = "LOCK"
"""Reserved in the data directory: whoever holds it owns the directory.  Never listed and never opened as data."""


def path_parts(path: str) -> tuple[str, ...]:
    """The names from the data directory down; none for the data directory itself.  ValueError for anything else."""
    if path == "":
        return ()
    parts = tuple(path.split("/"))
    for part in parts:
        if part in ("", ".", "..") or "\0" in part:
            raise ValueError(f"path {path!r} is not made of names below the data directory")
    if parts[0] == LOCK_NAME:
        raise ValueError(f"path {path!r} is the lock of the data directory")
    return parts


def file_parts(path: str) -> tuple[str, ...]:
    """As `path_parts`, but the data directory itself is refused."""
    parts = path_parts(path)
    if not parts:
        raise ValueError("the data directory itself can be neither opened, renamed nor removed")
    return parts
