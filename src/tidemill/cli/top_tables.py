"""The tables of `tidemill top`, printed once or updated on a terminal."""

import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live

from tidemill.cli.output import Cells, or_dash, print_table, table_of
from tidemill.cli.top_rates import Row, view_of
from tidemill.cli.top_sample import Sampler

BROKER_COLUMNS: Final = (
    "broker", "status", "records/s", "in MiB/s", "out MiB/s", "requests/s", "journal MiB/s", "syncs/s", "sync ms",
)  # fmt: skip
TOPIC_COLUMNS: Final = (
    "topic", "partitions", "leaderless", "records/s", "in MiB/s", "out MiB/s", "committed/s",
)  # fmt: skip
GROUP_COLUMNS: Final = ("group", "state", "topics", "lag", "committed/s")
LINES_AROUND: Final = 19  # screen lines that titles, headings, frames, captions and the prompt take up
ROWS_MIN: Final = 3  # rows that each table shows even on a small screen


def print_once(view: Row) -> None:
    """Print the three tables, and notes about missing data to stderr."""
    for note in view["notes"]:
        print(f"tidemill: {note}", file=sys.stderr)
    print_table(BROKER_COLUMNS, [_broker_cells(row) for row in view["brokers"]], title=_title(view))
    print()
    print_table(TOPIC_COLUMNS, [_topic_cells(row) for row in view["topics"]], title="Topics")
    print()
    print_table(GROUP_COLUMNS, [_group_cells(row) for row in view["groups"]], title="Groups")


def show_live(sampler: Sampler, interval_s: float) -> None:
    """Show the tables and update them until Ctrl-C.  Raise `Failed` if no broker responds."""
    console = Console()
    before = sampler.sample()
    with Live(_tables(view_of(before, before), console), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(interval_s)
            now = sampler.sample()
            live.update(_tables(view_of(before, now), console), refresh=True)
            before = now


def _title(view: Row) -> str:
    seen = f"; seen by broker {view['answered_by']}" if view["answered_by"] is not None else ""
    return f"Cluster {or_dash(view['cluster_id'])}, rates of the last {view['interval_s']:.1f} s{seen}"


def _tables(view: Row, console: Console) -> Group:
    """Return the tables for a terminal.  Rows that do not fit on the screen are not listed, only counted."""
    room = max(console.height - LINES_AROUND - len(view["brokers"]) - len(view["notes"]), 2 * ROWS_MIN)
    groups_shown = max(min(len(view["groups"]), room // 2), ROWS_MIN)
    topics_shown = max(room - min(len(view["groups"]), groups_shown), ROWS_MIN)
    return Group(
        table_of(BROKER_COLUMNS, [_broker_cells(row) for row in view["brokers"]], title=_title(view)),
        _shortened(TOPIC_COLUMNS, [_topic_cells(row) for row in view["topics"]], topics_shown, "Topics"),
        _shortened(GROUP_COLUMNS, [_group_cells(row) for row in view["groups"]], groups_shown, "Groups"),
        *view["notes"],
    )


def _shortened(columns: Sequence[str], rows: list[Cells], count_max: int, title: str) -> Any:
    rest = len(rows) - count_max
    return table_of(columns, rows[:count_max], title=title, caption=f"{rest} more" if rest > 0 else None)


def _broker_cells(row: Row) -> Cells:
    return (
        row["broker_id"],
        row["status"],
        _whole(row["records_in_per_s"]),
        _mib(row["bytes_in_per_s"]),
        _mib(row["bytes_out_per_s"]),
        _whole(row["requests_per_s"]),
        _mib(row["journal_bytes_per_s"]),
        _whole(row["syncs_per_s"]),
        None if row["sync_ms"] is None else f"{row['sync_ms']:.1f}",
    )


def _topic_cells(row: Row) -> Cells:
    return (
        row["topic"],
        row["partitions"],
        row["leaderless"],
        _whole(row["records_in_per_s"]),
        _mib(row["bytes_in_per_s"]),
        _mib(row["bytes_out_per_s"]),
        _whole(row["committed_per_s"]),
    )


def _group_cells(row: Row) -> Cells:
    return (row["group"], row["state"], row["topics"], row["lag"], _whole(row["committed_per_s"]))


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _mib(value: float | None) -> str | None:
    return None if value is None else f"{value / (1 << 20):.2f}"
