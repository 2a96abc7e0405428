"""The state that a replay stores between runs: range, progress and current step.  Format: docs/formats/pipelines.md.

A step is stored before its first record is sent, and marked as done when all its records are acknowledged.  After a
crash, the next run therefore repeats exactly the ranges of the step that was interrupted.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tidemill.columnar.offset_bound import from_json, to_json
from tidemill.model.partition import TopicPartition
from tidemill.spark.pipelines.replay.schedule import DueTimes

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of completed steps."""

    read: int = 0  # records read, before the filter
    written: int = 0
    repeated_max: int = 0  # records written again that interrupted steps may have stored already
    steps: int = 0

    def plus(self, *, read: int, written: int) -> "Counts":
        return replace(self, read=self.read + read, written=self.written + written, steps=self.steps + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step: in each partition, the offsets from the position in the state to `end`."""

    end: Offsets
    target: Offsets  # the ends of the target's partitions before the step; of a timer topic, the arrival numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayState:
    """The progress of a replay.  All offsets are those of the source topic, except in `step.target`."""

    topic_id: str | None  # None if the broker does not support topic ids
    start: Offsets
    end: Offsets | None  # None: the range is open, and grows with the topic
    done: Offsets  # by partition, the offset up to which it is replayed
    step: Step | None = None  # the step that is running or was interrupted
    counts: Counts = field(default_factory=Counts)
    due: DueTimes | None = None  # of a timer topic; None until the first record is known

    def with_due(self, due: DueTimes) -> "ReplayState":
        return replace(self, due=due)

    def step_begun(self, step: Step) -> "ReplayState":
        return replace(self, step=step)

    def step_done(self, *, read: int, written: int) -> "ReplayState":
        assert self.step is not None, "a step is begun before it is done"
        return replace(
            self, done={**self.done, **self.step.end}, step=None, counts=self.counts.plus(read=read, written=written)
        )

    def repeated(self, records: int) -> "ReplayState":
        """Return the state with the count of possible duplicates in the target raised by `records`."""
        return replace(self, counts=replace(self.counts, repeated_max=self.counts.repeated_max + records))

    def with_partitions(self, new: Offsets) -> "ReplayState":
        """Return the state with partitions that were added to the topic since the replay of an open range began."""
        return replace(self, start={**self.start, **new}, done={**self.done, **new})

    def to_json(self) -> dict[str, Any]:
        return {
            "topic_id": self.topic_id,
            "start": to_json(self.start),
            "end": None if self.end is None else to_json(self.end),
            "done": to_json(self.done),
            "step": None if self.step is None else {"end": to_json(self.step.end), "target": to_json(self.step.target)},
            "counts": {
                "read": self.counts.read,
                "written": self.counts.written,
                "repeated_max": self.counts.repeated_max,
                "steps": self.counts.steps,
            },
            "due": None if self.due is None else asdict(self.due),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ReplayState":
        step, due = value["step"], value.get("due")  # older versions have written no `due`
        return cls(
            topic_id=value["topic_id"],
            start=from_json(value["start"]),
            end=None if value["end"] is None else from_json(value["end"]),
            done=from_json(value["done"]),
            step=None if step is None else Step(end=from_json(step["end"]), target=from_json(step["target"])),
            counts=Counts(**value["counts"]),
            due=None if due is None else DueTimes(**due),
        )
