"""The kills of leaders in the demo wait until a restarted broker has caught up."""

from types import SimpleNamespace
from typing import Any

import pytest

from examples.leader_kills import _lacks


def view(match_index: int | None) -> Any:
    """Return the view of a cluster with one shard, whose leader knows this log index of the restarted broker 2."""
    members = [{"broker_id": 3, "match_index": None}, {"broker_id": 2, "match_index": match_index}]
    return SimpleNamespace(shards=[{"shard_id": 1, "topic": "t", "state": "ok", "led_here": {"members": members}}])


@pytest.mark.parametrize(
    ("match_index", "problem"), [(None, "does not know its log yet"), (7, "lacks 3 rows"), (10, None)]
)
def test_a_restarted_broker_must_have_every_row(match_index: int | None, problem: str | None) -> None:
    """A restarted broker has caught up when its log has reached the target; a leader may not know its log at first."""
    found = _lacks(2, {1: 10}, view(match_index))

    assert problem is None if found is None else problem is not None and problem in found
