"""The tables of brokers and of moves, as the controller reports them."""

from typing import Any, Final

from tidemill.cli.output import Cells
from tidemill.model.data_size import size_text
from tidemill.rebalance.state_words import broker_state, copied_percent

BROKER_COLUMNS: Final = (
    "broker",
    "state",
    "rack",
    "disk",
    "cpu",
    "replicas",
    "leaders",
    "bytes",
    "heard_by",
    "not_in_sync",
)
MOVE_COLUMNS: Final = ("shard", "why", "voters", "planned", "copied", "bytes_left")
STEP_COLUMNS: Final = ("shard", "why", "planned", "bytes", "step")
REFUSAL_COLUMNS: Final = ("what", "problem")
UNTOLD: Final = (
    "'-' and '+?': the leaders of some shards have not told the controller their figures yet: it is new, or they have "
    "no leader.  Look again in some seconds; if that lasts, `tidemill cluster rebalance` says why."
)
Row = dict[str, Any]


def broker_cells(brokers: list[Row]) -> list[Cells]:
    return [
        (
            row["broker_id"],
            state_of(row),
            row["rack"],
            _percent(row["disk_used"], row["disk_total"]),
            None if row["cpu"] is None else f"{row['cpu'] // 10}%",
            row["replicas"],
            row["leaders"],
            _as_told(row, size_text(row["bytes"])),
            row["heard_by"],
            _as_told(row, row["not_in_sync"] - row["untold"]),
        )
        for row in brokers
    ]


def untold_note(brokers: list[Row]) -> str | None:
    """Return why figures are missing in the table of brokers; None if none is."""
    return UNTOLD if any(row["untold"] for row in brokers) else None


def state_of(row: Row) -> str:
    """Return whether a broker is there, for how long it has not been, and what is drained of it."""
    return broker_state(
        presence=row["presence"],
        drain=row["drain"],
        is_live=row["is_live"],
        is_heard=row["heard_by"] > 0,
        is_ready=row["is_ready"],
        silent_ms=row["silent_ms"],
        live_ms=row["live_ms"],
        replicas=row["replicas"] + row["leaving"],
    )


def move_cells(moves: list[Row]) -> list[Cells]:
    return [
        (
            row["shard_id"],
            row["reason"],
            _ids(row["voters"]),
            _ids(row["replicas"]),
            _copied(row),
            size_text(row["remaining"]),
        )
        for row in moves
    ]


def step_cells(steps: list[Row]) -> list[Cells]:
    return [
        (row["shard_id"], row["reason"], _ids(row["replicas"]), size_text(row["size"]), row["sentence"])
        for row in steps
    ]


def _as_told(row: Row, figure: object) -> object:
    """Return a figure of a broker's replicas as far as leaders have told the controller; None if none has."""
    if not row["untold"]:
        return figure
    return f"{figure}+?" if row["untold"] < row["replicas"] else None


def _copied(row: Row) -> str:
    percent = copied_percent(
        voters=row["voters"], replicas=row["replicas"], size=row["size"], remaining=row["remaining"]
    )
    return "-" if percent is None else f"{percent}%"


def _ids(broker_ids: list[int]) -> str:
    return ",".join(map(str, broker_ids)) or "-"


def _percent(part: int | None, total: int | None) -> str | None:
    return None if part is None or not total else f"{part * 100 // total}%"
