"""The state that a run stores in its state directory: the range, resolved once, and the number of completed steps."""

import shutil
from dataclasses import dataclass, replace
from typing import Final

from tidemill.spark.pipelines.frame.state_directory import StateDirectory
from tidemill.spark.pipelines.stats.topic_range import TopicRange

_NAME: Final = "stats"
_STEPS: Final = "steps"


@dataclass(frozen=True, slots=True)
class RunState:
    read: TopicRange
    step_records: int
    step_count: int  # number of completed steps
    is_done: bool

    def done_step(self) -> "RunState":
        return replace(self, step_count=self.step_count + 1)


def load(state: StateDirectory) -> RunState | None:
    """Return the state of an unfinished run; None if the next run starts from the beginning."""
    found = state.read(_NAME)
    if found is None or found["is_done"]:
        return None
    return RunState(TopicRange.from_json(found["range"]), found["step_records"], found["step_count"], False)


def save(state: StateDirectory, run: RunState) -> None:
    state.write(
        _NAME,
        {
            "range": run.read.to_json(),
            "step_records": run.step_records,
            "step_count": run.step_count,
            "is_done": run.is_done,
        },
    )


def step_path(state: StateDirectory, index: int) -> str:
    return str(state.path / _STEPS / f"{index:05}")


def remove_steps(state: StateDirectory) -> None:
    shutil.rmtree(state.path / _STEPS, ignore_errors=True)
