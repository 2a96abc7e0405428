"""The rules for paths of the Disk port, shared by all implementations: no path leads out of the data directory."""

from typing import Final

LOCK_NAME: Final = "LOCK"
"""The name of the lock file of the data directory.  It is never listed, and never opened as data."""


def path_parts(path: str) -> tuple[str, ...]:
    """Return the names in `path`; none for the data directory itself.  Raises ValueError if the path is not allowed."""
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
    """Return the names in `path`, as `path_parts` does, but also raise ValueError for the data directory itself."""
    parts = path_parts(path)
    if not parts:
        raise ValueError("the data directory itself can be neither opened, renamed nor removed")
    return parts
