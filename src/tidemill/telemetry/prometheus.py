"""Renders and reads metrics in Prometheus's text format.  Only this module imports Prometheus's library, on first use.

Each broker has its own collector and registry, so the metrics of two brokers in one process do not mix, and metrics
cost nothing between scrapes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tidemill.telemetry.histogram import Histogram
from tidemill.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

COUNTERS: Final[Mapping[str, str]] = {
    "bytes_received": "Bytes read from clients.",
    "bytes_sent": "Bytes written to clients.",
    "connections_accepted": "Client connections accepted.",
    "connections_refused": "Client connections refused because there were too many.",
    "protocol_errors": "Requests that could not be read; their connections were closed.",
    "request_failures": "Requests that failed because of a bug in the broker; the event log has their tracebacks.",
    "loop_stalls": "Times the event loop was blocked for longer than a quarter of a second.",
    "produce_records": "Records appended.",
    "produce_batches": "Record batches appended.",
    "produce_bytes": "Bytes of record batches appended.",
    "produce_refusals": "Partitions of Produce requests that were answered with an error.",
    "fetch_bytes": "Bytes of record batches sent to consumers.",
    "fetch_cache_misses": "Reads that had to wait for the disk.",
    "corrupt_batches": "Batches that did not match their checksum when read; they are never served.",
    "journal_blocks": "Blocks written to the journal.",
    "journal_bytes": "Bytes written to the journal.",
    "checkpoints": "Checkpoints completed.",
    "checkpoint_seconds": "Time that checkpoints took, from request to completion.",
    "log_start_moves": "Log start offsets advanced by retention.",
    "letters_written": "Dead letters of share groups written for partitions that this broker leads.",
    "letters_dropped": "Dead records of share groups that were archived without a dead letter.",
    "letters_lost": "Dead records that retention removed before their dead letters were written.",
    "rebalance_moved_bytes": "Bytes sent to new replicas of shards led here, until they vote.",
    "replicas_released": "Replicas on this broker that were closed because their shards are placed on other brokers.",
}
GAUGES: Final[Mapping[str, str]] = {
    "connections": "Client connections open.",
    "request_bytes_in_flight": "Bytes of requests that are being received or handled.",
    "response_bytes_unread": "Bytes of large responses that their clients have not read yet.",
    "loop_lag_seconds_max": "The longest time the event loop was blocked since the broker started.",
    "topics": "Topics, including internal ones.",
    "partitions": "Partitions on this broker.",
    "shards": "Shards on this broker.",
    "groups": "Consumer groups coordinated by this broker.",
    "members": "Members of those groups.",
    "group_offsets_unmeasured": "Committed offsets of those groups that tidemill_group_lag_records does not contain.",
    "shares": "Shares in partitions led here: each is what one share group has done with one partition.",
    "shares_unmeasured": "Shares led here that the gauges tidemill_queue_* do not contain.",
    "share_sessions": "Sessions of members of share groups with this broker.",
    "share_fetches_waiting": "ShareFetch requests that wait for records.",
    "led_partitions": "Partitions that this broker leads.",
    "leaderless_partitions": "Partitions of the cluster for which this broker knows no leader that is up.",
    "under_replicated_partitions": "Partitions led here with fewer in-sync replicas than planned.",
    "under_min_insync_partitions": "Partitions led here with fewer in-sync replicas than min.insync.replicas.",
    "damaged_partitions": "Partitions on this broker that are out of use, because their files are damaged.",
    "is_controller": "1 on the broker that leads the cluster's metadata.",
    "has_quorum_contact": "1 while this broker hears a majority of the voters of the cluster's metadata.",
    "is_draining": "1 while this broker transfers its leadership to other brokers.",
    "uptime_seconds": "Time since the broker recovered its data directory.",
    "disk_free_bytes": "Free bytes on the disk of the data directory, as last checked.",
    "disk_needed_bytes": "Free bytes below which writes are refused.",
    "is_disk_full": "1 while writes are refused because the disk is full.",
}
TOPIC_COUNTERS: Final[Mapping[str, str]] = {
    "bytes_in": "Bytes of record batches appended to the topic, as its producers sent them.",
    "records_in": "Records appended to the topic.",
    "bytes_out": "Bytes of record batches of the topic sent to consumers.",
    "produce_requests": "Produce requests for partitions of the topic that are on this broker, also refused ones.",
    "fetch_requests": "Fetch requests whose responses had records, new offsets or errors of the topic.",
}
QUEUE_COUNTERS: Final[Mapping[str, str]] = {
    "records_acquired": "Records that consumers of a share group have acquired, again or for the first time.",
    "records_redelivered": "Records acquired that had been acquired before.",
    "records_accepted": "Records that consumers have accepted.",
    "records_released": "Records that consumers have released, or have held when their session ended.",
    "records_rejected": "Records that consumers have rejected.",
    "locks_expired": "Records that consumers have not acknowledged before the lock expired.",
    "records_archived": "Records that are dead: rejected, delivered too often, or too old.",
}
QUEUE_GAUGES: Final[Mapping[str, str]] = {
    "available": "Records of partitions led here that a consumer of the share group could acquire now.",
    "held": "Records of partitions led here that consumers of the share group hold.",
    "delayed": "Records of partitions led here that wait for their release time.",
    "dead_waiting": "Dead records of partitions led here whose dead letter is not written yet.",
    "expired_unread": "Records of partitions led here that retention removed before the share group finished them.",
    "tracked_runs": "Ranges of records in one state that partitions led here keep for the share group.",
}
TIMER_COUNTERS: Final[Mapping[str, str]] = {
    "batches_refused": "Batches for a timer topic that were answered with an error.",
    "records_released": "Records of a timer topic that were delivered.",
    "records_cancelled": "Records of a timer topic that requests have cancelled while they waited.",
    "records_replaced": "Records of a timer topic that a later record with their id has replaced or cancelled.",
    "bytes_moved": "Bytes of records of a timer topic that were moved out of old files, because they wait long.",
    "read_ahead_misses": "Records of a timer topic whose release waited for a read, because none was made ahead of it.",
}
TIMER_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "waiting": ("waiting_records", "Records that wait in partitions led here until they are due."),
    "waiting_bytes": ("waiting_bytes", "About how many bytes these records have."),
    "next_due": ("next_due_timestamp_seconds", "When the first of these records is due; +Inf if nothing waits."),
    "clock_behind": (
        "clock_behind_seconds",
        "How far the clock by which records are released is behind this broker's; +Inf while it is not known.",
    ),
}
REBALANCE_STATUS: Final = "1 for the status of re-placement, on the controller: idle, working, stalled or off."
REBALANCE_STATUSES: Final = ("idle", "working", "stalled", "off")
REBALANCE_GAUGES: Final[Mapping[str, str]] = {
    "moves": "Shards whose replicas are on their way to other brokers, on the controller; elsewhere 0.",
    "missing_bytes": "Bytes that the new replicas of these shards lack, on the controller; elsewhere 0.",
    "refusals": (
        "Moves that replicas need and that cannot be made now, as the controller's last plan lists them, without those "
        "that only balance asks for; elsewhere 0."
    ),
}
HISTOGRAMS: Final[Mapping[str, str]] = {
    "journal_sync_seconds": "Time to write one block to the journal and sync it.",
}


class PrometheusText:
    """Renders one broker's metrics."""

    def __init__(
        self,
        metrics: Metrics,
        api_names: Mapping[int, str],
        error_name: Callable[[int], str],
        build: Mapping[str, str] = NOTHING,
    ) -> None:
        """
        Render `metrics`.  `api_names` maps API keys to names; `error_name` returns the name of an error code; `build`
        holds the labels of `tidemill_build_info`.
        """
        self._build = build
        self._metrics = metrics
        self._api_names = api_names
        self._error_name = error_name
        self._registry: Any = None

    def render(self) -> str:
        # Imported at the first scrape, so that a broker that is never scraped does not load it (decision 12).
        from prometheus_client import generate_latest

        if self._registry is None:
            from prometheus_client import CollectorRegistry, ProcessCollector

            self._registry = CollectorRegistry(auto_describe=False)
            self._registry.register(self)
            ProcessCollector(registry=self._registry)  # `process_*`: CPU time, memory, open files, start time
        return generate_latest(self._registry).decode()

    def describe(self) -> list["Metric"]:
        """Return no metrics.  Otherwise, the library would collect them at registration to get their names."""
        return []

    def collect(self) -> Iterator["Metric"]:
        """Yield the current metrics.  The library calls this at each scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        metrics = self._metrics
        build = GaugeMetricFamily("tidemill_build_info", "1; the labels say what runs.", labels=[*self._build])
        build.add_metric([*self._build.values()], 1)
        yield build
        for field, text in COUNTERS.items():
            yield CounterMetricFamily(f"tidemill_{field}", text, value=float(getattr(metrics, field)))
        for field, text in GAUGES.items():
            yield GaugeMetricFamily(f"tidemill_{field}", text, value=float(getattr(metrics, field)))
        for field, text in HISTOGRAMS.items():
            yield HistogramMetricFamily(f"tidemill_{field}", text, **_values(getattr(metrics, field)))
        lags = GaugeMetricFamily(
            "tidemill_group_lag_records",
            "Records between the committed offset and the end of the partition, of groups coordinated here.",
            labels=["group", "topic"],
        )
        for group, topic, lag in metrics.group_lags:
            lags.add_metric([group, topic], lag)
        yield lags
        offsets = GaugeMetricFamily(
            "tidemill_peer_clock_offset_seconds",
            "How far the wall clock of another broker is ahead of this broker's; negative: behind.",
            labels=["broker"],
        )
        for broker_id, seconds_ahead in metrics.peer_clock_offsets:
            offsets.add_metric([str(broker_id)], seconds_ahead)
        yield offsets
        for field, text in TOPIC_COUNTERS.items():
            family = CounterMetricFamily(f"tidemill_topic_{field}", text, labels=["topic"])
            for topic, counters in metrics.by_topic.rows():
                family.add_metric([topic], getattr(counters, field))
            yield family
        for field, text in QUEUE_COUNTERS.items():
            family = CounterMetricFamily(f"tidemill_queue_{field}", text, labels=["group", "topic"])
            for queue, counted in metrics.by_queue.rows():
                family.add_metric(queue, getattr(counted, field))
            yield family
        for field, text in QUEUE_GAUGES.items():
            unit = "" if field.endswith("_runs") else "_records"
            gauge = GaugeMetricFamily(f"tidemill_queue_{field}{unit}", text, labels=["group", "topic"])
            for row in metrics.queues:
                gauge.add_metric([row.group, row.topic], getattr(row, field))
            yield gauge
        yield from self._timers()
        yield from self._rebalance()
        requests = CounterMetricFamily("tidemill_requests", "Requests begun.", labels=["api"])
        errors = CounterMetricFamily(
            "tidemill_request_errors", "Error codes in responses, one for each place.", labels=["api", "error"]
        )
        seconds = HistogramMetricFamily(
            "tidemill_request_seconds", "Time from when a request begins until its response is ready.", labels=["api"]
        )
        for api_key, api in sorted(metrics.apis.items()):
            name = self._api_names.get(api_key, str(api_key))
            requests.add_metric([name], api.requests)
            for error_code, count in sorted(api.errors.items()):
                errors.add_metric([name, self._error_name(error_code)], count)
            seconds.add_metric([name], **_values(api.latencies))
        yield from (requests, errors, seconds)

    def _timers(self) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        metrics = self._metrics
        for field, text in TIMER_COUNTERS.items():
            family = CounterMetricFamily(f"tidemill_timer_{field}", text, labels=["topic"])
            for topic, counters in metrics.by_timer_topic.rows():
                family.add_metric([topic], getattr(counters, field))
            yield family
        lateness = HistogramMetricFamily(
            "tidemill_timer_lateness_seconds",
            "Time from when a record of a timer topic is due until its release is committed.",
            labels=["topic"],
        )
        for topic, counters in metrics.by_timer_topic.rows():
            lateness.add_metric([topic], **_values(counters.lateness_seconds))
        yield lateness
        for field, (name, text) in TIMER_GAUGES.items():
            gauge = GaugeMetricFamily(f"tidemill_timer_{name}", text, labels=["topic"])
            for row in metrics.timers:
                gauge.add_metric([row.topic], getattr(row, field))
            yield gauge

    def _rebalance(self) -> Iterator["Metric"]:
        from prometheus_client.core import GaugeMetricFamily

        gauges = self._metrics.rebalance
        status = GaugeMetricFamily("tidemill_rebalance_status", REBALANCE_STATUS, labels=["status"])
        for name in REBALANCE_STATUSES if gauges.status is not None else ():
            status.add_metric([name], name == gauges.status)
        yield status
        for field, text in REBALANCE_GAUGES.items():
            yield GaugeMetricFamily(f"tidemill_rebalance_{field}", text, value=getattr(gauges, field))
        brokers = GaugeMetricFamily(
            "tidemill_brokers", "Brokers of the cluster in each state, on the controller.", labels=["state"]
        )
        for state, count in gauges.brokers:
            brokers.add_metric([state], count)
        yield brokers


def _values(histogram: Histogram) -> dict[str, Any]:
    """
    Return the library's arguments for a histogram: for each bucket, its upper bound and the number of durations up to
    it; and the sum of all durations.
    """
    bounds = (*(str(bound / histogram.per_second) for bound in histogram.bounds), "+Inf")
    buckets = [*zip(bounds, accumulate(histogram.counts), strict=True)]
    return {"buckets": buckets, "sum_value": histogram.sum / histogram.per_second}


def counters_of(text: str) -> dict[tuple[str, str], float]:
    """Return values by name and topic, summed over all other labels.  The topic is empty if there is no label `topic`.

    Raise ValueError if `text` is not in this format.
    """
    from prometheus_client.parser import text_string_to_metric_families

    counters: defaultdict[tuple[str, str], float] = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            counters[sample.name, sample.labels.get("topic", "")] += sample.value
    return dict(counters)
