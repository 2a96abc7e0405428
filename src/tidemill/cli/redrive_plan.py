"""Plans a redrive: which letters of a dead-letter topic are sent back, and why others are not."""

from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from tidemill.cli.letter import Letter


class OffsetRun(NamedTuple):
    """Consecutive offsets."""

    first: int
    last: int  # inclusive

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class Skip(StrEnum):
    """Why a letter that was selected cannot be sent back."""

    NO_ORIGIN = "no header names its topic and partition; --to TOPIC sends it anyway"
    NO_CONTENT = "it does not have the content of its record"
    OWN_TOPIC = "its origin is the dead-letter topic itself; --to TOPIC sends it elsewhere"
    UNKNOWN_TOPIC = "its topic does not exist; create it, or use --to TOPIC"


@dataclass(slots=True)
class RedrivePlan:
    runs: dict[int, deque[OffsetRun]] = field(default_factory=dict)  # by partition, ascending
    targets: Counter[str] = field(default_factory=Counter)  # letters by the topic to which they go
    skipped: Counter[Skip] = field(default_factory=Counter)
    unknown_topics: set[str] = field(default_factory=set)

    @property
    def letters(self) -> int:
        return self.targets.total()

    def add(self, letter: Letter, target: str) -> None:
        """Add a letter.  Those of a partition are added in the order of their offsets."""
        runs = self.runs.setdefault(letter.partition, deque())
        if runs and runs[-1].last + 1 == letter.offset:
            runs[-1] = OffsetRun(runs[-1].first, letter.offset)
        else:
            runs.append(OffsetRun(letter.offset, letter.offset))
        self.targets[target] += 1


def plan(letters: Iterable[Letter], topic: str, *, to: str | None, topics: Collection[str]) -> RedrivePlan:
    """
    Return the plan for letters of the dead-letter topic `topic`.

    They go to the topic `to`, which exists, or else each to its origin.  `topics` are those that exist.
    """
    made = RedrivePlan()
    for letter in letters:
        target = to or letter.origin.topic
        if not letter.has_content:
            made.skipped[Skip.NO_CONTENT] += 1
        elif target is None or (to is None and letter.origin.partition is None):
            made.skipped[Skip.NO_ORIGIN] += 1
        elif target == topic:
            made.skipped[Skip.OWN_TOPIC] += 1
        elif target not in topics:
            made.skipped[Skip.UNKNOWN_TOPIC] += 1
            made.unknown_topics.add(target)
        else:
            made.add(letter, target)
    return made


def take(runs: deque[OffsetRun], size_max: int) -> list[OffsetRun]:
    """Remove the first `size_max` offsets from `runs`, or all if there are fewer, and return them."""
    taken: list[OffsetRun] = []
    while runs and size_max > 0:
        run = runs.popleft()
        if run.size > size_max:
            runs.appendleft(OffsetRun(run.first + size_max, run.last))
            run = OffsetRun(run.first, run.first + size_max - 1)
        taken.append(run)
        size_max -= run.size
    return taken
