"""The state that a backfill stores in its state directory.  Format: docs/formats/pipelines.md."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tidemill.spark.pipelines.backfill.parts import Part
from tidemill.spark.pipelines.backfill.time_groups import FileGroup, SourceFile
from tidemill.spark.pipelines.frame.state_directory import StateDirectory

_PLAN: Final = "plan"
_POSITION: Final = "position"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """The plan that the first run makes and that every later run follows."""

    schema: Mapping[str, Any]  # schema of the source rows, in Spark's JSON format
    topic_id: str | None  # None if the broker does not support topic ids
    partition_count: int  # number of partitions of the topic
    part_records: int
    groups: tuple[FileGroup, ...]
    empty_files: tuple[str, ...]  # paths of files without rows
    then: Mapping[int, int] | None  # end offsets of the live topic (option `then`) before the first write

    @property
    def records(self) -> int:
        return sum(group.records for group in self.groups)

    @property
    def bytes(self) -> int:
        return sum(group.bytes for group in self.groups)

    @property
    def files(self) -> tuple[SourceFile, ...]:
        return tuple(file for group in self.groups for file in group.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far all runs together have come: the parts before this position are done."""

    group: int = 0
    part: int = 0  # index of the next part in its group of files
    parts: int = 0  # the number of parts that are done
    records: int = 0  # the number of records in the parts that are done
    bytes: int = 0
    seconds: float = 0.0  # time spent writing `records`, in the attempts that completed their parts
    repeated_parts: int = 0  # parts that were written again after an incomplete attempt
    extra_records: int = 0  # growth of the topic beyond `records`: duplicates, or other producers' records
    # The topic's end offsets before the first attempt to write the part at the position; empty if there was no attempt.
    begun_at: Mapping[int, int] = field(default_factory=dict)


class BackfillState:
    """Reads and writes the state of a backfill."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory

    def plan(self) -> BackfillPlan | None:
        """Return the plan of the first run, or None if no plan has been made yet."""
        found = self._directory.read(_PLAN)
        if found is None:
            return None
        return BackfillPlan(
            schema=found["schema"],
            topic_id=found["topic_id"],
            partition_count=found["partition_count"],
            part_records=found["part_records"],
            groups=tuple(
                FileGroup(
                    files=tuple(SourceFile(**_with_numbers(file, "partitions")) for file in group["files"]),
                    is_sorted_first=group["is_sorted_first"],
                )
                for group in found["groups"]
            ),
            empty_files=tuple(found["empty_files"]),
            then=None if found["then"] is None else _numbered(found["then"]),
        )

    def keep_plan(self, plan: BackfillPlan) -> None:
        self._directory.write(_PLAN, asdict(plan))

    def position(self) -> Position:
        found = self._directory.read(_POSITION)
        return Position() if found is None else Position(**_with_numbers(found, "begun_at"))

    def keep_position(self, position: Position) -> None:
        self._directory.write(_POSITION, asdict(position))

    def parts(self, group: int) -> list[Part] | None:
        """Return the parts into which a group of files was sorted, or None if it has not been sorted yet."""
        found = self._directory.read(_group_name(group))
        if found is None:
            return None
        return [Part(**{**_with_numbers(part, "partitions"), "paths": tuple(part["paths"])}) for part in found["parts"]]

    def keep_parts(self, group: int, parts: Sequence[Part]) -> None:
        self._directory.write(_group_name(group), {"parts": [asdict(part) for part in parts]})

    def sorted_directory(self, group: int) -> Path:
        """Return the directory that contains the sorted parts of a group of files."""
        return self._directory.path / "sorted" / _group_name(group)


def _group_name(group: int) -> str:
    return f"group-{group:05}"


def _with_numbers(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the JSON object with the keys of its member `name` converted to numbers, because JSON keys are text."""
    return {**found, name: _numbered(found[name])}


def _numbered(found: Mapping[str, int]) -> dict[int, int]:
    return {int(number): value for number, value in found.items()}
