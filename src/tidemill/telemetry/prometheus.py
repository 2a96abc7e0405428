"""Counters as Prometheus text: the one import of its library, made at the first scrape.

A collector on a registry of its own: two brokers in one process do not meet, and nothing is paid between scrapes.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tidemill.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

COUNTERS: Final[Mapping[str, str]] = {
    "bytes_received": "Bytes read from clients.",
    "bytes_sent": "Bytes written to clients.",
    "connections_accepted": "Client connections accepted.",
    "connections_refused": "Client connections refused because there were too many.",
    "protocol_errors": "Requests that could not be read; their connections were closed.",
    "request_failures": "Requests that failed by a mistake of the broker; the event log has their tracebacks.",
    "loop_stalls": "Times the event loop stood still for longer than a quarter of a second.",
    "produce_records": "Records appended.",
    "produce_batches": "Record batches appended.",
    "produce_bytes": "Bytes of record batches appended.",
    "produce_refusals": "Partitions of Produce requests that were answered with an error.",
    "fetch_bytes": "Bytes of record batches sent to consumers.",
    "fetch_cache_misses": "Reads that had to wait for the disk.",
    "corrupt_batches": "Batches whose checksum was wrong when they were read; never served.",
    "journal_blocks": "Blocks written to the journal.",
    "journal_bytes": "Bytes written to the journal.",
    "checkpoints": "Checkpoints completed.",
    "checkpoint_seconds": "Time that checkpoints took, from when they were wanted.",
    "log_start_moves": "Log start offsets moved by retention.",
}
GAUGES: Final[Mapping[str, str]] = {
    "connections": "Client connections open.",
    "request_bytes_in_flight": "Bytes of requests that are coming or being worked on.",
    "response_bytes_unread": "Bytes of large responses that their clients have not taken yet.",
    "loop_lag_seconds_max": "The longest the event loop stood still since the broker started.",
    "topics": "Topics, internal ones too.",
    "partitions": "Partitions on this broker.",
    "shards": "Shards on this broker.",
    "groups": "Consumer groups this broker coordinates.",
    "members": "Members of those groups.",
    "disk_free_bytes": "Free bytes where the data directory lies, as last asked.",
    "is_disk_full": "1 while writes are refused because the disk is full.",
}


class PrometheusText:
    """Renders one broker's metrics; `api_names` names the APIs by key."""

    def __init__(self, metrics: Metrics, api_names: Mapping[int, str]) -> None:
        self._metrics = metrics
        self._api_names = api_names
        self._registry: Any = None

    def render(self) -> str:
        from prometheus_client import generate_latest  # 8 MB and 0.1 s that a broker nobody scrapes does without

        if self._registry is None:
            from prometheus_client import CollectorRegistry

            self._registry = CollectorRegistry(auto_describe=False)
            self._registry.register(self)
        return generate_latest(self._registry).decode()

    def describe(self) -> list["Metric"]:
        """Nothing to say before a scrape: the library asks, and would otherwise collect once for the names."""
        return []

    def collect(self) -> Iterator["Metric"]:
        """Called by the library at each scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        metrics = self._metrics
        for field, text in COUNTERS.items():
            yield CounterMetricFamily(f"tidemill_{field}", text, value=float(getattr(metrics, field)))
        for field, text in GAUGES.items():
            yield GaugeMetricFamily(f"tidemill_{field}", text, value=float(getattr(metrics, field)))
        requests = CounterMetricFamily("tidemill_requests", "Requests answered.", labels=["api"])
        errors = CounterMetricFamily("tidemill_request_errors", "Requests answered with an error.", labels=["api"])
        seconds = CounterMetricFamily("tidemill_request_seconds", "Time from request to response.", labels=["api"])
        for api_key, api in sorted(metrics.apis.items()):
            labels = [self._api_names.get(api_key, str(api_key))]
            requests.add_metric(labels, api.requests)
            errors.add_metric(labels, api.errors)
            seconds.add_metric(labels, api.seconds)
        yield from (requests, errors, seconds)
