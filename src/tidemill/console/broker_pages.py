"""The pages of the cluster as a whole: overview, brokers, shards."""

from bisect import bisect_left
from collections.abc import Sequence
from math import isnan
from typing import Any, Final

from starlette.responses import HTMLResponse

from tidemill.console import formats
from tidemill.console.cluster_view import STATES, ShardRow
from tidemill.console.rebalance_reader import state_of
from tidemill.console.site import Visit

CHARTS: Final = (
    ("bytes", "Bytes per second", (("produce_bytes", "produced"), ("fetch_bytes", "consumed")), formats.size),
    ("records", "Records produced per second", (("produce_records", "produced"),), formats.rate),
    ("latency", "Produce latency", (("latency_ms_p50", "median"), ("latency_ms_p99", "99 %")), formats.milliseconds),
    ("journal", "Journal bytes per second", (("journal_bytes", "written"),), formats.size),
)
"""Id, title, series (column and label) and unit of each chart."""

OVERVIEW_MOVES_MAX: Final = 5  # the overview shows so many moves; the page of brokers has more
MOVES_MAX: Final = 50  # `tidemill cluster moves` shows all


def overview(visit: Visit) -> HTMLResponse:
    history = visit.view.history()
    charts = [
        {
            "id": chart,
            "title": title,
            "series": [{"column": name, "label": label, "now": unit(_last(history[name]))} for name, label in series],
        }
        for chart, title, series, unit in CHARTS
    ]
    queues = visit.queue_summaries.latest(visit.view)
    return visit.render("overview.html", **_brokers(visit, OVERVIEW_MOVES_MAX), queues=queues, charts=charts)


def brokers(visit: Visit) -> HTMLResponse:
    return visit.render("brokers.html", **_brokers(visit, MOVES_MAX))


def _brokers(visit: Visit, moves_max: int) -> dict[str, Any]:
    """Return what the parts `brokers` and `rebalance` of both pages show."""
    rebalance, rows = visit.rebalance.latest(visit.view), visit.view.brokers()
    shards = visit.view.shards()
    return {
        "brokers": [(row, state_of(row, rebalance)) for row in rows],
        "rebalance": rebalance,
        "moves": [(move, _topic(shards, move.shard_id)) for move in rebalance.moves[:moves_max]],
    }


def _topic(shards: Sequence[ShardRow], shard_id: int) -> str | None:
    """Return the topic of a shard; None if this broker does not know the shard yet, or any more."""
    at = bisect_left(shards, shard_id, key=lambda row: row.shard_id)
    return shards[at].topic if at < len(shards) and shards[at].shard_id == shard_id else None


def shards(visit: Visit) -> HTMLResponse:
    topic, leader = visit.text("q"), visit.number("leader", -1)
    state = visit.choice("state", STATES, "")
    found = [
        row
        for row in visit.view.shards()
        if topic.lower() in row.topic.lower() and leader in (-1, row.leader) and state in ("", row.state)
    ]
    return visit.render("shards.html", page=visit.slice(found), state=state, states=STATES, leader=leader)


def _last(column: list[float]) -> float | None:
    """Return the newest value; None if there are no samples, or if it is NaN."""
    return None if not column or isnan(column[-1]) else column[-1]
