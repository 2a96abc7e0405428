"""The manifest of a snapshot, which names the directory of the current version.  Format: docs/formats/pipelines.md.

Each version is written to its own directory.  It becomes current when the manifest names it: the manifest is replaced
atomically, and only after the files of the version are durable.  If the run crashes before that, the previous
version remains current.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidemill.columnar.offset_bound import from_json, to_json
from tidemill.model.partition import TopicPartition

FORMAT: Final = 1
MANIFEST: Final = "_snapshot.json"  # Spark skips names that begin with an underscore
_A_VERSION: Final = re.compile(r"v\d{7,}")


class SnapshotRefused(ValueError):
    """There is no snapshot that can be read or continued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of a snapshot."""

    topic: str
    topic_id: str | None  # None if the broker does not support topic ids
    version: int
    offsets: Mapping[TopicPartition, int]  # the snapshot includes the records before these offsets
    has_headers: bool
    keys: int

    @property
    def directory(self) -> str:
        return version_directory(self.version)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "version": self.version,
            "directory": self.directory,
            "offsets": to_json(self.offsets),
            "has_headers": self.has_headers,
            "keys": self.keys,
        }


def version_directory(version: int) -> str:
    return f"v{version:07}"


def read(snapshot: Path) -> Manifest | None:
    """
    Return the manifest of the current version; None if there is none.

    Raise SnapshotRefused if it cannot be read.
    """
    path = snapshot / MANIFEST
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise SnapshotRefused(f"{path} is damaged ({error}): restore it, or use another directory") from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else value
        raise SnapshotRefused(
            f"{path} has format {found!r}, and this version of Tidemill reads {FORMAT}: use the version that wrote it, "
            "or another directory"
        )
    return Manifest(
        topic=value["topic"],
        topic_id=value["topic_id"],
        version=value["version"],
        offsets=from_json(value["offsets"]),
        has_headers=value["has_headers"],
        keys=value["keys"],
    )


def commit(snapshot: Path, manifest: Manifest) -> None:
    """Make the files of this version durable, and then make it the current version."""
    for directory, _, files in os.walk(snapshot / manifest.directory):
        for name in files:
            _sync(Path(directory, name))  # Spark does not sync the files that it writes
        _sync(Path(directory))
    _sync(snapshot)
    new = snapshot / f"{MANIFEST}.new"
    new.write_text(json.dumps(manifest.to_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    _sync(new)
    new.replace(snapshot / MANIFEST)
    _sync(snapshot)


def remove_others(snapshot: Path, current: int | None, *, kept: int) -> None:
    """
    Remove the directories of all versions except the last `kept` up to `current`; if `current` is None, remove all.
    """
    names = set() if current is None else {version_directory(current - back) for back in range(kept)}
    for path in snapshot.glob("v*"):
        if _A_VERSION.fullmatch(path.name) and path.name not in names:
            shutil.rmtree(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
