"""The pages of the cluster as a whole: overview, brokers, shards."""

from math import isnan
from typing import Final

from starlette.responses import HTMLResponse

from tidemill.console import formats
from tidemill.console.cluster_view import STATES
from tidemill.console.site import Visit

CHARTS: Final = (
    ("bytes", "Bytes per second", (("produce_bytes", "produced"), ("fetch_bytes", "consumed")), formats.size),
    ("records", "Records produced per second", (("produce_records", "produced"),), formats.rate),
    ("latency", "Produce latency", (("latency_ms_p50", "median"), ("latency_ms_p99", "99 %")), formats.milliseconds),
    ("journal", "Journal bytes per second", (("journal_bytes", "written"),), formats.size),
)
"""Id, title, series (column and label) and unit of each chart."""


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
    return visit.render("overview.html", brokers=visit.view.brokers(), queues=queues, charts=charts)


def brokers(visit: Visit) -> HTMLResponse:
    return visit.render("brokers.html", brokers=visit.view.brokers())


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
