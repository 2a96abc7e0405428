"""Counts dead letters by cause, origin, group and hour."""

from collections import Counter
from typing import Any, Final

from tidemill.cli.letter import Letter
from tidemill.cli.output import print_fields, print_table
from tidemill.cli.queue_records import moment

UNKNOWN: Final = "unknown"
_HOUR_MS: Final = 3_600_000


class LetterStats:
    """Counts of the letters that were added."""

    def __init__(self) -> None:
        self.letters = 0
        self.causes: Counter[str] = Counter()
        self.topics: Counter[str] = Counter()
        self.groups: Counter[str] = Counter()
        self.hours: Counter[str] = Counter()  # by the beginning of the hour, in UTC
        self.oldest_ms: int | None = None
        self.newest_ms: int | None = None

    def add(self, letter: Letter) -> None:
        origin, at = letter.origin, letter.timestamp_ms
        self.letters += 1
        self.causes[origin.cause or UNKNOWN] += 1
        self.topics[origin.topic or UNKNOWN] += 1
        self.groups[origin.group or UNKNOWN] += 1
        self.hours[UNKNOWN if at is None else moment(at - at % _HOUR_MS)] += 1
        if at is not None:
            self.oldest_ms = at if self.oldest_ms is None else min(self.oldest_ms, at)
            self.newest_ms = at if self.newest_ms is None else max(self.newest_ms, at)

    def print(self) -> None:
        print_fields(
            {
                "letters": self.letters,
                "oldest": None if self.oldest_ms is None else moment(self.oldest_ms),
                "newest": None if self.newest_ms is None else moment(self.newest_ms),
            }
        )
        if self.letters:
            for name, counts in (("cause", self.causes), ("topic", self.topics), ("group", self.groups)):
                print_table((name, "letters"), list(_by_count(counts).items()))
            print_table(("hour", "letters"), sorted(self.hours.items()))

    def to_json(self) -> dict[str, Any]:
        return {
            "letters": self.letters,
            "oldest": self.oldest_ms,
            "newest": self.newest_ms,
            "causes": _by_count(self.causes),
            "origin_topics": _by_count(self.topics),
            "groups": _by_count(self.groups),
            "hours": dict(sorted(self.hours.items())),
        }


def _by_count(counts: Counter[str]) -> dict[str, int]:
    """Return the counts, the largest first, and equal ones by name."""
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
