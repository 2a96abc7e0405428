"""Runs the transcripts in `tests/scenarios/raft`: sequences of events that a random search rarely finds."""

from pathlib import Path

import pytest

from tests.unit.raft.transcript import Transcript

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios" / "raft").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_transcript_meets_its_expectations(path: Path) -> None:
    """All expectations in a transcript are met at the point where they stand between its events."""
    Transcript().run(path)
