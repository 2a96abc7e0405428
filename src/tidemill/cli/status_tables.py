"""The state of a cluster as tables, printed once or updated on a terminal."""

import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live

from tidemill.cli.cluster_view import ClusterView, address_of, read_view
from tidemill.cli.output import Cells, counted, or_dash, print_table, table_of

BROKER_COLUMNS: Final = ("broker", "status", "kafka", "http", "rack", "heartbeat_ms", "leads", "carries")
SHARD_COLUMNS: Final = (
    "shard",
    "topic",
    "partitions",
    "state",
    "leader",
    "term",
    "commit",
    "voters",
    "learners",
    "lag",
    "bytes",
)
PROBLEM_COLUMNS: Final = ("broker", "problem", "count", "detail")
LINES_PER_PROBLEM: Final = 3  # screen lines that a problem takes up, because its detail is wrapped
LINES_AROUND: Final = 14  # screen lines that titles, headings, frames and the prompt take up


def print_once(view: ClusterView) -> None:
    """Print a summary and the tables of brokers, of their problems if any, and of shards; print notes to stderr."""
    _print_notes(view)
    print(title_of(view))
    print_table(BROKER_COLUMNS, broker_cells(view))
    print()
    if found := problem_cells(view):
        print_table(PROBLEM_COLUMNS, found, title="Problems")
        print()
    print_table(SHARD_COLUMNS, shard_cells(view.shards), title="Shards")


def show_live(addresses: Sequence[str], refresh_s: float) -> None:
    """Show the tables and update them until Ctrl-C.  Raise NoResponse as soon as no known broker responds."""
    console = Console()
    view = read_view(addresses)
    _print_notes(view)
    with Live(_tables(view, console), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(refresh_s)
            view = read_view(view.addresses)
            live.update(_tables(view, console), refresh=True)


def _print_notes(view: ClusterView) -> None:
    for note in view.notes:
        print(f"tidemill: {note}", file=sys.stderr)


def title_of(view: ClusterView) -> str:
    """Return a line that summarizes the cluster."""
    cluster = view.cluster
    return (
        f"Cluster {cluster['cluster_id']}: {cluster['brokers_live']} of {counted(cluster['brokers'], 'broker')} live, "
        f"controller {or_dash(cluster['controller'])}, {counted(cluster['topics'], 'topic')}, "
        f"{counted(cluster['internal_topics'], 'internal topic')}, {counted(cluster['shards'], 'shard')}; "
        f"seen by broker {cluster['answered_by']}"
    )


def broker_cells(view: ClusterView) -> list[Cells]:
    return [
        (
            row["broker_id"],
            row["status"],
            ",".join(address_of(end) for end in row["endpoints"] if end["name"] not in ("PEER", "HTTP")) or "-",
            ",".join(address_of(end) for end in row["endpoints"] if end["name"] == "HTTP") or "-",
            row["rack"],
            row["heartbeat_age_ms"],
            row["shards_led"],
            row["shards_carried"],
        )
        for row in view.brokers
    ]


def problem_cells(view: ClusterView) -> list[Cells]:
    """Return the table cells for the problems that each broker reports."""
    return [
        (row["broker_id"], it["problem"], it["count"], it["detail"]) for row in view.brokers for it in row["problems"]
    ]


def shard_cells(shards: Sequence[dict[str, Any]]) -> list[Cells]:
    cells: list[Cells] = []
    for row in shards:
        led = row["led_here"] or {"voters": row["replicas"], "learners": (), "commit_index": None, "members": ()}
        first, count = row["first_partition"], row["partition_count"]
        lags = [
            f"{it['broker_id']}:{'?' if it['lag_rows'] is None else it['lag_rows']}"
            for it in led["members"]
            if it["broker_id"] != row["leader"]
        ]
        cells.append(
            (
                row["shard_id"],
                row["topic"],
                str(first) if count == 1 else f"{first}-{first + count - 1}",
                row["state"],
                row["leader"],
                row["term"],
                led["commit_index"],
                ",".join(map(str, led["voters"])),
                ",".join(map(str, led["learners"])) or "-",
                " ".join(lags) or "-",
                led.get("size_bytes"),
            )
        )
    return cells


def _tables(view: ClusterView, console: Console) -> Group:
    """Return the tables for a terminal.

    Shards that are not ok come first.  Shards that do not fit on the screen are not listed, only counted.
    """
    problems = problem_cells(view)
    room = max(console.height - LINES_AROUND - len(view.brokers) - LINES_PER_PROBLEM * len(problems), 5)
    ordered = sorted(view.shards, key=lambda row: row["state"] == "ok")
    shown, rest = ordered[:room], ordered[room:]
    not_ok = sum(row["state"] != "ok" for row in rest)
    caption = f"{len(rest)} more, {not_ok} of them not ok" if rest else None
    return Group(
        table_of(BROKER_COLUMNS, broker_cells(view), title=title_of(view)),
        *([table_of(PROBLEM_COLUMNS, problems, title="Problems")] if problems else ()),
        table_of(SHARD_COLUMNS, shard_cells(shown), title="Shards", caption=caption),
    )
