"""LoadReporter: tells the controller what this broker and the shards that it leads use.

    counters ─▶ averages ─┬─▶ changed by a quarter, or old ──────────────┬─▶ due ─▶ LOAD sections ─▶ controller
    members, in sync, led ┴─▶ changed at all: at the next tick, and later ┘

The broker's own figures are sent every `tidemill.load.report.ms`, and each shard is measured as often.  A new
controller, or one to which sections may have been lost, receives everything again.  A shard that rests is not reported
again: the controller keeps its last figures.

A shard whose members or leader have changed is reported with its next three samples as well: the planner trusts only
figures that were taken some time after a move (`Policy.figures_after_ms`), and a shard that rests has no others.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from tidemill.broker.load.rate_average import RateAverage
from tidemill.broker.load.reported_load import ReportedLoad
from tidemill.broker.load.shard_meter import ShardMeter
from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.clock import Clock
from tidemill.model.config_resolution import BrokerLayers, broker_int
from tidemill.model.shard import ShardId
from tidemill.peer.load import BrokerLoad, Load, ShardLoad
from tidemill.shard.shard import Shard
from tidemill.storage.disk import Disk
from tidemill.telemetry.metrics import Metrics

REPORT_KEY: Final = "tidemill.load.report.ms"
WINDOW_REPORTS: Final = 3  # the averages are over so many times the interval between reports
OLD_REPORTS: Final = 6  # figures that have changed by less than a quarter are sent after so many intervals
SAMPLES_MAX: Final = 64  # shards measured at one tick: more would hold the event loop for more than a millisecond
SHARDS_MAX: Final = 128  # shards reported at one tick; further ones follow at the next ticks
SAMPLES_AFTER_CHANGE: Final = 3
CHANGE_SHARE: Final = 4  # a figure that has changed by 1 / 4 is sent, unless the change is below its floor
SIZE_FLOOR: Final = 1 << 20  # bytes
BYTES_IN_FLOOR: Final = 64 << 10  # per second
CPU_FLOOR: Final = 5  # per mille of a core


class LoadReporter:
    def __init__(
        self,
        machine: Machine,
        cluster: Cluster,
        disk: Disk,
        metrics: Metrics,
        layers: Callable[[], BrokerLayers],
        reported: ReportedLoad,
        clock: Clock,
    ) -> None:
        """`reported` has the figures on the controller, which may be this broker; `clock` does not count stalls."""
        self._machine = machine
        self._cluster = cluster
        self._disk = disk
        self._metrics = metrics
        self._layers = layers
        self._reported = reported
        self._clock = clock
        self._controller: ReplicaKey | None = None  # that receives figures now
        self._sent_to: tuple[ReplicaKey, int, object] | None = None  # it, its term, and `Peers.delivery`
        now_us = machine.clock.monotonic_us()
        self._cpu = RateAverage(machine.cpu_us(), now_us)
        self._bytes_in = RateAverage(metrics.bytes_received, now_us)
        self._bytes_out = RateAverage(metrics.bytes_sent, now_us)
        self._measured_at_us = now_us
        self._is_broker_due = False
        # When each shard on this broker was last measured, oldest first.
        self._meters: dict[ShardId, tuple[ShardMeter, int]] = {}
        self._led: dict[ShardId, ShardMeter] = {}
        self._weights = 0  # the sum over `_meters`
        self._due: dict[ShardId, None] = {}  # led shards to report, in this order

    def serving_changed(self, shard: Shard) -> None:
        """Begin or stop to report `shard`: this broker has started or stopped serving it as its leader."""
        self._drop(shard.shard_id)
        if shard.is_serving:
            self._led[shard.shard_id] = self._add(shard, self._machine.clock.monotonic_us())
            self._changed(shard.shard_id)

    def membership_changed(self, shard: Shard) -> None:
        """Report `shard` at the next tick: this broker has put another membership in force as its leader."""
        self._changed(shard.shard_id)

    def _changed(self, shard_id: ShardId) -> None:
        meter = self._led.get(shard_id)
        if meter is not None:
            meter.due_samples = SAMPLES_AFTER_CHANGE
            self._due[shard_id] = None

    def _add(self, shard: Shard, now_us: int) -> ShardMeter:
        meter = ShardMeter(shard, now_us)
        self._meters[shard.shard_id] = meter, now_us
        return meter

    def _drop(self, shard_id: ShardId) -> None:
        dropped = self._meters.pop(shard_id, None)
        if dropped is not None:
            self._weights -= dropped[0].weight
        self._led.pop(shard_id, None)
        self._due.pop(shard_id, None)

    def tick(self) -> None:
        """Measure what has not been measured for an interval, and send what is due.  Called at each tick."""
        if self._cluster.image.feature_level < ELASTIC_CLUSTER:
            return  # the controller may be of a version that would not understand it
        now_us, interval_us = self._machine.clock.monotonic_us(), broker_int(self._layers(), REPORT_KEY) * 1_000
        self._follow_controller()
        if now_us - self._measured_at_us >= interval_us:
            self._measured_at_us = now_us
            self._measure_broker(now_us, interval_us)
        self._measure_shards(now_us, interval_us)
        for shard_id in self._cluster.take_changed_in_sync():
            self._changed(shard_id)
        self._send()

    def _follow_controller(self) -> None:
        """Find the controller; if it or the connection to it is new, everything is due."""
        cluster = self._cluster
        controller = cluster.controller()
        delivery: object | None = None
        if controller is not None:
            delivery = self._reported if controller == cluster.me else cluster.peers.delivery(controller)
        if controller is None or delivery is None:
            self._controller = self._sent_to = None
            return
        self._controller = controller
        to = controller, cluster.controller_term, delivery
        if to != self._sent_to:
            self._sent_to = to
            self._is_broker_due = self._cpu.is_known
            self._due = dict.fromkeys(self._led)

    def _measure_broker(self, now_us: int, interval_us: int) -> None:
        window_us = WINDOW_REPORTS * interval_us
        self._cpu.sample(self._machine.cpu_us(), now_us, window_us)
        self._bytes_in.sample(self._metrics.bytes_received, now_us, window_us)
        self._bytes_out.sample(self._metrics.bytes_sent, now_us, window_us)
        self._is_broker_due = True
        for shard_id, shard in self._cluster.shards.items():
            if shard_id not in self._meters:
                self._add(shard, now_us)  # this broker follows it

    def _measure_shards(self, now_us: int, interval_us: int) -> None:
        now_ms, shards = self._clock.monotonic_ms(), self._cluster.shards
        for shard_id, (meter, measured_at_us) in [*islice(self._meters.items(), SAMPLES_MAX)]:
            if now_us - measured_at_us < interval_us:
                break
            if shards.get(shard_id) is not meter.shard:  # it is closed
                self._drop(shard_id)
                continue
            self._weights -= meter.weight
            meter.sample(now_us, WINDOW_REPORTS * interval_us)
            self._weights += meter.weight
            del self._meters[shard_id]
            self._meters[shard_id] = meter, now_us
            if shard_id in self._led and self._is_news(meter, now_ms, OLD_REPORTS * interval_us // 1_000):
                self._due[shard_id] = None

    def _is_news(self, meter: ShardMeter, now_ms: int, old_ms: int) -> bool:
        """Return whether the controller should know a sample."""
        before = meter.reported
        if before is None or meter.due_samples:
            meter.due_samples = max(0, meter.due_samples - 1)
            return True
        if meter.rests:
            return False
        now = self._report(meter)
        return differs(before, now) or (now != before and now_ms - meter.reported_at_ms >= old_ms)

    def _report(self, meter: ShardMeter) -> ShardLoad:
        in_sync = self._cluster.voters_in_sync(meter.shard.shard_id)
        return meter.report(in_sync, self._cpu.per_second // 1_000, self._weights)

    def _send(self) -> None:
        controller = self._controller
        if controller is None or not (self._is_broker_due or self._due):
            return
        now_ms = self._clock.monotonic_ms()
        shards: list[ShardLoad] = []
        for shard_id in [*islice(self._due, SHARDS_MAX)]:
            del self._due[shard_id]
            meter = self._led[shard_id]
            meter.reported, meter.reported_at_ms = self._report(meter), now_ms
            shards.append(meter.reported)
        load = Load(broker=self._broker() if self._is_broker_due else None, shards=tuple(shards))
        self._is_broker_due = False
        if controller == self._cluster.me:
            self._reported.report(controller, load)
        else:
            self._cluster.peers.send_load(controller, load)

    def _broker(self) -> BrokerLoad:
        total = self._disk.total_space()
        return BrokerLoad(
            disk_total=total,
            disk_used=max(0, total - self._disk.free_space()),
            cpu=self._cpu.per_second // 1_000,
            bytes_in=self._bytes_in.per_second,
            bytes_out=self._bytes_out.per_second,
        )


def differs(before: ShardLoad, now: ShardLoad) -> bool:
    """Return whether a figure has changed so much that the controller should know at once."""
    return (
        now.is_measured != before.is_measured
        or _has_changed(before.size, now.size, SIZE_FLOOR)
        or _has_changed(before.bytes_in, now.bytes_in, BYTES_IN_FLOOR)
        or _has_changed(before.cpu, now.cpu, CPU_FLOOR)
        or _has_changed(sum(before.behind), sum(now.behind), SIZE_FLOOR)
    )


def _has_changed(before: int, now: int, floor: int) -> bool:
    change = abs(now - before)
    return change >= floor and change * CHANGE_SHARE >= before
