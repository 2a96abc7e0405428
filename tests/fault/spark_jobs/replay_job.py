"""The pipeline `replay` as a job that tests kill and run again: no record is lost, the order of each key is kept, and
duplicates are bounded.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.fault.spark_jobs.copied_records import duplicates_of
from tests.fault.spark_jobs.scene import session_arguments
from tests.fault.spark_jobs.topic_records import create_topic, end_offsets, read_all, send_numbered

_SOURCE: Final = "replay-source"
_TARGET: Final = "replay-target"
_SOURCE_PARTITIONS: Final = 3
_TARGET_PARTITIONS: Final = 4
_STEP: Final = 600
_RECORDS: Final = 6 * _STEP  # enough steps that no run ends before it is killed


class ReplayJob:
    """
    Each call of `prepare` begins a round, which has its own state directory and replays the records that were sent for
    it.
    """

    name = "replay"

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._rounds = 0
        self._start: dict[int, int] = {}  # where the current round starts, by partition of the source
        create_topic(bootstrap, _SOURCE, _SOURCE_PARTITIONS)
        create_topic(bootstrap, _TARGET, _TARGET_PARTITIONS)

    def prepare(self) -> None:
        self._start = end_offsets(self._bootstrap, _SOURCE, _SOURCE_PARTITIONS)
        send_numbered(self._bootstrap, _SOURCE, self._rounds * _RECORDS, _RECORDS, _SOURCE_PARTITIONS)
        self._rounds += 1

    def arguments(self, master: str) -> Sequence[str]:
        options = {
            "topic": _SOURCE,
            "to": _TARGET,
            "start": json.dumps(self._start),
            "step-records": _STEP,
            "state": self._state_directory(self._rounds),
            "bootstrap": self._bootstrap,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return ["-m", "tidemill", "pipeline", "run", "replay", *words, *session_arguments(master)]

    def moments(self) -> dict[str, int]:
        states = [self._state(number) for number in range(1, self._rounds + 1)]
        done = sum(state["counts"]["steps"] for state in states if state)
        return {"steps begun": done + sum(bool(state and state["step"]) for state in states), "steps done": done}

    def check(self) -> str:
        count = self._rounds * _RECORDS
        duplicates = duplicates_of(read_all(self._bootstrap, _TARGET, _TARGET_PARTITIONS), count)
        states = [self._state(number) for number in range(1, self._rounds + 1)]
        bound = sum(state["counts"]["repeated_max"] for state in states if state)
        assert duplicates <= bound, f"the reports allow {bound} duplicates, and there are {duplicates}"
        return f"{count} records, and {duplicates} duplicates of at most {bound} reported"

    def _state_directory(self, number: int) -> Path:
        return self._directory / f"state-{number}"

    def _state(self, number: int) -> dict[str, Any] | None:
        """Return the stored state of a round, or None before its first run has stored one."""
        try:
            found: dict[str, Any] = json.loads((self._state_directory(number) / "replay.json").read_bytes())
        except FileNotFoundError:
            return None
        return found
