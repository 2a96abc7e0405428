"""What random search would need luck for, line by line: `tests/scenarios/raft/*.txt`."""

from pathlib import Path

import pytest

from tests.unit.raft.transcript import Transcript

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios" / "raft").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_transcript_meets_its_expectations(path: Path) -> None:
    """Every `expect` of it."""
    Transcript().run(path)
