"""The table of moves on a terminal, updated until Ctrl-C."""

import time
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tidemill.cli.cluster_http import ClusterHttp
from tidemill.cli.cluster_tables import MOVE_COLUMNS, move_cells
from tidemill.cli.cluster_waits import untold_text
from tidemill.cli.output import counted, table_of
from tidemill.model.data_size import size_text

LINES_AROUND: Final = 8  # screen lines that the title, the heading, the frame and the prompt take up


def show_live(cluster: ClusterHttp, refresh_s: float) -> None:
    """Show the moves and update them until Ctrl-C.  Raise NoResponse as soon as no known broker responds."""
    console = Console()
    with Live(_table(cluster.get("/v1/moves"), console), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(refresh_s)
            live.update(_table(cluster.get("/v1/moves"), console), refresh=True)


def _table(found: dict[str, Any], console: Console) -> Table:
    rows = found["moves"]
    shown = rows[: max(console.height - LINES_AROUND, 5)]
    left = size_text(sum(row["remaining"] for row in rows))
    title = f"{counted(found['count'], 'shard')} under way, {left} to copy"
    rest = found["count"] - len(shown)
    notes = [f"{rest} more"] if rest else []
    if why := untold_text(found):
        notes.append(why)
    return table_of(MOVE_COLUMNS, move_cells(shown), title=title, caption="; ".join(notes) or None)
