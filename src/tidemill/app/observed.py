"""The HTTP server's view of a broker, or of a process whose broker has not started yet."""

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tidemill.app.cluster_report import ClusterReport
from tidemill.app.group_lag import group_lags
from tidemill.app.partition_health import partition_health
from tidemill.app.queue_gauges import queue_gauges
from tidemill.app.readiness import problems, waiting_to_join
from tidemill.app.rebalance_gauges import rebalance_gauges
from tidemill.app.timer_gauges import timer_gauges
from tidemill.broker.broker import Broker
from tidemill.broker.connection.dispatch import UNLISTED
from tidemill.broker.coordinators.group_coordinator import GROUPS
from tidemill.model import errors
from tidemill.model.config_resolution import broker_int
from tidemill.telemetry.prometheus import PrometheusText
from tidemill.wire.api import ALL


class ObservedBroker:
    def __init__(self, broker: Callable[[], Broker | None], join: Sequence[str] = ()) -> None:
        """
        Observe the broker that `broker` returns.  It returns None while the process recovers data (no request is
        answered during that time), and while the process waits to be admitted by one of the brokers at `join`.
        """
        self._broker = broker
        self._join = join
        self._text: PrometheusText | None = None

    @property
    def is_live(self) -> bool:
        broker = self._broker()
        return broker is None or broker.is_live

    @property
    def is_ready(self) -> bool:
        broker = self._broker()
        return broker is not None and broker.is_ready

    def problems(self) -> list[dict[str, Any]]:
        broker = self._broker()
        if broker is not None:
            return problems(broker)
        return [waiting_to_join(self._join)] if self._join else []

    def metrics_text(self) -> str | None:
        broker = self._broker()
        if broker is None:
            return None
        if self._text is None:
            names = {key: api.name for key, api in (ALL | UNLISTED).items()}
            build = {"version": program_version(), "python": platform.python_version()}
            self._text = PrometheusText(broker.metrics, names, errors.name, build)
        _update_gauges(broker)
        return self._text.render()

    def reported(self) -> ClusterReport | None:
        """Return the cluster report; None until the broker has its cluster's metadata."""
        broker = self._broker()
        return ClusterReport(broker) if broker is not None and broker.image.cluster_id else None


def program_version() -> str:
    """Return the installed version of Tidemill."""
    try:
        return version("tidemill")
    except PackageNotFoundError:  # the program runs from its sources, without being installed
        return "unknown"


def _update_gauges(broker: Broker) -> None:
    """Update the gauges that are computed only when the metrics are rendered."""
    metrics, table = broker.metrics, broker.shard_table
    metrics.topics = len(broker.image.topics)
    metrics.shards = len(table.shards)
    metrics.partitions = sum(map(len, table.topics.values()))
    counts = [hosted.core.groups.counts() for hosted in broker.coordinators.of(GROUPS).hosted()]
    metrics.groups = sum(groups for groups, _ in counts)
    metrics.members = sum(members for _, members in counts)
    rows_max = broker_int(broker.layers, "tidemill.metrics.group.lags.max")
    lags = group_lags(broker, rows_max)
    metrics.group_lags = lags.rows
    metrics.group_offsets_unmeasured = lags.unmeasured
    measured = queue_gauges(broker, rows_max)
    metrics.queues = measured.rows
    metrics.shares = measured.shares
    metrics.shares_unmeasured = measured.unmeasured
    metrics.share_sessions = len(broker.shares.sessions)
    metrics.share_fetches_waiting = broker.shares.waiting_count
    metrics.by_timer_topic.keep_topics(broker.image.topics)
    metrics.timers = timer_gauges(broker, broker_int(broker.layers, "tidemill.metrics.topics.max"))
    metrics.rebalance = rebalance_gauges(broker)
    metrics.rebalance_moved_bytes = broker.copy_pacing.copies.sent_bytes
    metrics.replicas_released = table.released_count
    health = partition_health(broker)
    metrics.led_partitions = health.led
    metrics.leaderless_partitions = health.leaderless
    metrics.under_replicated_partitions = health.under_replicated
    metrics.under_min_insync_partitions = health.under_min_insync
    metrics.damaged_partitions = health.damaged
    offsets = broker.cluster.clocks.offsets()
    metrics.peer_clock_offsets = [(voter.broker_id, off_ms / 1_000) for voter, off_ms in sorted(offsets.items())]
    metrics.is_controller = broker.controller.leads
    metrics.has_quorum_contact = broker.cluster.has_quorum_contact
    metrics.is_draining = broker.drain_leadership.is_draining
    metrics.uptime_seconds = (broker.clock.monotonic_ms() - broker.began_ms) / 1_000
