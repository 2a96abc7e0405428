"""RetentionHost: periodically moves the log start of each partition that this broker leads past expired records.

    every `log.retention.check.interval.ms` ─▶ `storage/partition/retention` finds the new log start ─▶ log-start row
                                                   └─▶ an expired active segment is rolled first ────────────▲

All replicas remove segments when this row commits, and at no other time.  Each check begins only once this broker's
image has reached the controller's current offset, so that outdated settings delete nothing.
"""

from collections.abc import Callable
from typing import Any, Final

from tidemill.broker.controller.metadata_freshness import CURRENT_MS, MetadataFreshness
from tidemill.broker.machine import Machine
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.model.config_resolution import BrokerLayers, broker_int
from tidemill.model.internal_topics import is_internal
from tidemill.shard.partition import Partition
from tidemill.storage.partition.retention import UNBOUNDED, retained_from, segment_ages
from tidemill.telemetry.metrics import Metrics

AGAIN_S: Final = 1.0  # pause after a failed check of metadata freshness, before the next check
PARTITIONS_PER_TURN: Final = 200  # checked per turn of the event loop, before waiting requests are served


class RetentionHost:
    def __init__(
        self,
        *,
        machine: Machine,
        shard_table: ShardTable,
        layers: Callable[[], BrokerLayers],
        metadata_freshness: MetadataFreshness,
        metrics: Metrics,
    ) -> None:
        self._metrics = metrics
        self._metadata_freshness = metadata_freshness
        self._machine = machine
        self._shard_table = shard_table
        self._layers = layers
        self._timer: Any = None
        self._unchecked: list[Partition] = []
        self._current_until_ms = 0  # monotonic time until which the settings in the image count as current
        self._moving: set[Partition] = set()  # partitions whose log-start row has not committed yet

    def begin(self) -> None:
        """Start with an immediate check: otherwise, a broker that is restarted often would never remove anything."""
        self._timer = self._machine.call_later(0, self._sweep)

    def stop(self) -> None:
        self._unchecked.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        interval_ms = broker_int(self._layers(), "log.retention.check.interval.ms")
        self._timer = self._machine.call_later(interval_ms / 1000, self._sweep)
        if self._unchecked:
            return  # the last check is still running, because there are too many partitions for this interval
        for topic, partitions in self._shard_table.topics.items():
            if not is_internal(topic):
                self._unchecked += [partition for partition in partitions.values() if _may_expire(partition)]
        self._resume()

    def _ask(self) -> None:
        until_ms = self._machine.clock.monotonic_ms() + CURRENT_MS

        def checked(is_current: bool) -> None:
            if is_current:
                self._current_until_ms = until_ms
                self._resume()
            elif self._unchecked:
                self._machine.call_later(AGAIN_S, self._resume)

        self._metadata_freshness.ask(checked)

    def _resume(self) -> None:
        if self._unchecked and self._machine.clock.monotonic_ms() > self._current_until_ms:
            self._ask()
            return
        for partition in self._unchecked[:PARTITIONS_PER_TURN]:
            self._check(partition)
        del self._unchecked[:PARTITIONS_PER_TURN]
        if self._unchecked:
            self._machine.turns.call_soon(self._resume)

    def _check(self, partition: Partition) -> None:
        shard, log, config = partition.shard, partition.log, partition.config
        # The topic may have been deleted since this check of all partitions began.
        is_open = self._shard_table.partition(partition.topic, partition.number) is partition
        if not (is_open and shard.accepts_writes) or partition in self._moving:
            return
        now_ms = self._machine.clock.wall_ms()
        kept_from = retained_from(
            segment_ages(log),
            high_watermark=partition.high_watermark,
            now_ms=now_ms,
            retention_ms=config.retention_ms,
            retention_bytes=config.retention_bytes,
        )
        if kept_from is None or kept_from <= log.log_start:
            return
        if kept_from == log.end_offset:
            log.roll()
        self._moving.add(partition)
        self._metrics.log_start_moves += 1
        shard.when_committed(
            shard.move_log_start(partition.number, kept_from, now_ms), lambda _: self._moving.discard(partition)
        )
        self._machine.events.event(
            "records expired", topic=partition.topic, partition=partition.number, log_start=kept_from
        )


def _may_expire(partition: Partition) -> bool:
    config = partition.config
    has_bound = config.retention_ms != UNBOUNDED or config.retention_bytes != UNBOUNDED
    return has_bound and "delete" in config.cleanup_policy and bool(partition.log.segments)
