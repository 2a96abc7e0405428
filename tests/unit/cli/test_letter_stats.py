"""The counts of `tidemill dlq stats`."""

from tests.unit.cli.dead_letters import dead_letter
from tidemill.cli.letter_stats import LetterStats
from tidemill.model.letter_origin import Cause

NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z


def test_letters_are_counted_by_cause_origin_group_and_hour() -> None:
    """
    Every letter is counted once in each table; what is not known is counted as unknown.
    """
    stats = LetterStats()
    for letter in (
        dead_letter(timestamp_ms=NOON_MS + 1),
        dead_letter(timestamp_ms=NOON_MS - 1, cause=Cause.LIMIT, group="audit"),
        dead_letter(timestamp_ms=NOON_MS + 3_599_999, cause=None, topic=None),
        dead_letter(timestamp_ms=None),
    ):
        stats.add(letter)

    assert {
        "letters": 4,
        "oldest": NOON_MS - 1,
        "newest": NOON_MS + 3_599_999,
        "causes": {"rejected": 2, "limit": 1, "unknown": 1},
        "origin_topics": {"orders": 3, "unknown": 1},
        "groups": {"billing": 3, "audit": 1},
        "hours": {"2026-01-01T11:00:00Z": 1, "2026-01-01T12:00:00Z": 2, "unknown": 1},
    } == stats.to_json()
