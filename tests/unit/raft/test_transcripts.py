"""Runs the transcripts in `tests/scenarios/raft`: sequences of events that a random search rarely finds."""

from pathlib import Path

import pytest

from tests.unit.raft.transcript import Transcript

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios" / "raft").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_transcript_meets_its_expectations(path: Path) -> None:
    """Each expectation in a transcript is met at its place in the sequence of events."""
    Transcript().run(path)
