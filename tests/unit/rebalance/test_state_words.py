"""How brokers and moves are shown to operators."""

from typing import Any

import pytest

from tidemill.rebalance.state_words import broker_state, copied_percent

HERE: dict[str, Any] = {
    "presence": "active",
    "drain": "none",
    "is_live": True,
    "is_heard": True,
    "is_ready": True,
    "silent_ms": 0,
    "live_ms": 31_000,
    "replicas": 3,
}
AWAY: dict[str, Any] = {"is_live": False, "is_heard": False, "is_ready": False, "silent_ms": 125_000, "live_ms": 0}


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("active", {}),
        ("not ready", {"is_ready": False}),
        ("down 2m", AWAY),
        ("down", AWAY | {"silent_ms": None}),
        ("active, heard by others only", AWAY | {"is_heard": True, "silent_ms": 0}),
        ("active, heard by others only, draining all", AWAY | {"is_heard": True, "drain": "all"}),
        ("silent 2m", AWAY | {"is_heard": True, "presence": "silent"}),
        ("silent 2m", AWAY | {"presence": "silent"}),
        ("gone 2m, draining all", AWAY | {"presence": "gone", "drain": "all"}),
        ("gone, back 31s", {"presence": "gone"}),
        ("silent, back", {"presence": "silent", "live_ms": None}),
        ("active, draining leaders", {"drain": "leaders", "is_ready": False}),
        ("active, draining all", {"drain": "all"}),
        ("active, empty", {"drain": "all", "replicas": 0}),
        ("active, draining leaders", {"drain": "leaders", "replicas": 0}),
    ],
)
def test_the_state_of_a_broker(expected: str, changes: dict[str, Any]) -> None:
    """
    A broker that is drained is not called "not ready", because that is what the drain is for; and what is drained of
    its leaders only is never empty.  A broker that only the controller does not hear is not down: it keeps its
    replicas, and no silence is counted.
    """
    assert expected == broker_state(**(HERE | changes))


@pytest.mark.parametrize(
    ("expected", "replicas", "remaining"),
    [(None, (2, 1), 0), (0, (1, 3), 100), (45, (1, 3), 55), (77, (3, 4), 45), (0, (1, 3), 130), (100, (1, 3), 0)],
)
def test_the_progress_of_a_move(expected: int | None, replicas: tuple[int, ...], remaining: int) -> None:
    """
    Only replicas that do not vote yet are copied.  They may lack more than the shard had when its size was measured.
    """
    assert expected == copied_percent(voters=(1, 2), replicas=replicas, size=100, remaining=remaining)
