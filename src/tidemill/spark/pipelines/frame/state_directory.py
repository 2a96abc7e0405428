"""The directory in which a pipeline stores the state that a later run needs to resume.

Format: docs/formats/pipelines.md.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

FORMAT: Final = 1
PIPELINE: Final = "pipeline"
LOCK: Final = "lock"
CHECKPOINT: Final = "checkpoint"
_A_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]*")


class StateRefused(ValueError):
    """The state directory belongs to another job, is in use by another run, or cannot be read."""


class StateDirectory:
    """
    Stores JSON values by name.  Each value is replaced atomically and durably.

    Nothing is written before `claim`, so a plan can read a directory that does not exist.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """
        Lock the directory for this run.  Raise StateRefused if another run holds the lock.

        The kernel releases the lock when the process ends, even if it is killed; the lock file's content is used only
        in the error message of a second run.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / LOCK).open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StateRefused(f"state={self.path} is in use by {self._holder()}: {_WAIT}") from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield

    def claim(self, pipeline: str, identity: Mapping[str, str]) -> None:
        """
        Bind the directory to a pipeline and to the options that identify the job, such as its topic, source and target.

        The first call writes `pipeline.json`.  A later call with other values raises StateRefused, because a job that
        used the state of another job would skip records.
        """
        wanted = {"pipeline": pipeline, **identity}
        found = self.read(PIPELINE)
        if found is None:
            self.write(PIPELINE, {"format": FORMAT, "pipeline": pipeline, "identity": dict(identity)})
            return
        if found.get("format") != FORMAT:
            raise StateRefused(
                f"state={self.path} has format {found.get('format')}, and this version of Tidemill reads {FORMAT}: "
                "use the version that wrote it, or another state directory"
            )
        claimed = {"pipeline": found["pipeline"], **found["identity"]}
        for key in [*wanted, *(key for key in claimed if key not in wanted)]:
            if wanted.get(key) != claimed.get(key):
                raise StateRefused(
                    f"{key}={_shown(wanted.get(key))}: state={self.path} belongs to a run with "
                    f"{key}={_shown(claimed.get(key))}; use another state directory, or the same {key}"
                )

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the value of `name`; None if it was never written.  Raise StateRefused if the file is damaged."""
        file = self._file(name)
        try:
            value = json.loads(file.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StateRefused(f"{file} is damaged ({error}): restore it, or use another state directory") from error
        if not isinstance(value, dict):
            raise StateRefused(f"{file} is no JSON object: restore it, or use another state directory")
        return value

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Replace the value of `name`.  It is durable when the call returns; a reader sees the old value or the new."""
        file = self._file(name)
        new = file.with_suffix(".new")
        file.parent.mkdir(parents=True, exist_ok=True)
        with new.open("wb") as out:
            out.write(json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n")
            out.flush()
            os.fsync(out.fileno())
        new.replace(file)
        directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def checkpoint(self) -> str:
        """Return the directory for Spark's checkpoint of a streaming query.  Spark creates it."""
        return str(self.path / CHECKPOINT)

    def _file(self, name: str) -> Path:
        if not _A_NAME.fullmatch(name):
            raise ValueError(f"name={name!r} is no name of a state file: use lower-case letters, digits, '.', '_', '-'")
        return self.path / f"{name}.json"

    def _holder(self) -> str:
        pid = (self.path / LOCK).read_text().strip()
        try:
            found = self.read(PIPELINE)
        except StateRefused:
            found = None
        named = f"the pipeline {found.get('pipeline')}" if found else "another run"
        return f"{named} (process {pid})" if pid else named


_WAIT: Final = "wait until it has ended, or use another state directory"


def _shown(value: str | None) -> str:
    return "(none)" if value is None else value
