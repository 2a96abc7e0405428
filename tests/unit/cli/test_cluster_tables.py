"""The tables of `tidemill cluster`: how states, sizes and progress are written."""

from typing import Any

import pytest

from tidemill.cli.cluster_tables import broker_cells, move_cells, state_of, untold_note


def broker(**changes: Any) -> dict[str, Any]:
    row = {
        "broker_id": 3,
        "rack": "b",
        "presence": "active",
        "drain": "none",
        "is_live": True,
        "is_ready": True,
        "heard_by": 2,
        "silent_ms": 0,
        "live_ms": 90_000,
        "disk_total": 200,
        "disk_used": 51,
        "cpu": 129,
        "replicas": 4,
        "leaders": 1,
        "bytes": 3 << 20,
        "not_in_sync": 1,
        "untold": 0,
        "leaving": 0,
    }
    return row | changes


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "active"),
        ({"is_live": False, "heard_by": 0, "silent_ms": 4_000}, "down 4s"),
        ({"is_live": False, "heard_by": 2, "silent_ms": 0}, "active, heard by others only"),
        ({"is_live": False, "heard_by": 0, "presence": "silent", "silent_ms": 125_000}, "silent 2m"),
        ({"is_live": False, "presence": "gone", "silent_ms": 7_300_000, "drain": "all"}, "gone 2h, draining all"),
        ({"presence": "gone", "live_ms": 12_000}, "gone, back 12s"),
        ({"is_ready": False}, "not ready"),
        ({"is_ready": False, "drain": "leaders"}, "active, draining leaders"),
        ({"drain": "all"}, "active, draining all"),
        ({"drain": "all", "replicas": 0}, "active, empty"),
        ({"drain": "all", "replicas": 0, "leaving": 1}, "active, draining all"),
        ({"drain": "leaders", "replicas": 0}, "active, draining leaders"),
    ],
)
def test_a_state_says_what_is_wrong_with_a_broker_and_for_how_long(changes: dict[str, Any], state: str) -> None:
    assert state == state_of(broker(**changes))


def test_figures_that_are_not_known_are_dashes_and_no_zeros() -> None:
    known, unknown = broker_cells([broker(), broker(disk_total=None, disk_used=None, cpu=None)])

    assert (3, "active", "b", "25%", "12%", 4, 1, "3.00 MiB", 2, 1) == tuple(known)
    assert (None, None) == (unknown[3], unknown[4])


@pytest.mark.parametrize(
    ("changes", "size", "not_in_sync"),
    [
        ({"bytes": 0, "not_in_sync": 4, "untold": 4}, None, None),
        ({"not_in_sync": 3, "untold": 2}, "3.00 MiB+?", "1+?"),
        ({"bytes": 0, "replicas": 0, "not_in_sync": 0}, "0 B", 0),
    ],
)
def test_what_no_leader_has_told_a_new_controller_is_neither_nothing_nor_out_of_sync(
    changes: dict[str, Any], size: object, not_in_sync: object
) -> None:
    """Otherwise a healthy cluster looks as if it had lost all its replicas, just after its controller has changed."""
    rows = [broker(**changes)]

    (cells,) = broker_cells(rows)

    assert (size, not_in_sync) == (cells[7], cells[9])
    assert bool(changes.get("untold")) == ("have not told the controller" in (untold_note(rows) or ""))


def test_progress_is_the_share_that_the_new_replicas_have() -> None:
    """It counts all newcomers together; a move that copies nothing has none."""
    row = {"shard_id": 4, "reason": "drain", "voters": [1, 2, 3], "replicas": [1, 4, 5], "size": 100, "remaining": 50}
    shrinks = row | {"replicas": [1, 2], "remaining": 0}

    assert [(4, "drain", "1,2,3", "1,4,5", "75%", "50 B"), (4, "drain", "1,2,3", "1,2", "-", "0 B")] == [
        tuple(cells) for cells in move_cells([row, shrinks])
    ]
