"""
Lose one of four brokers for good, and measure how its replicas are copied while a producer goes on.

    python -m benchmarks.lost_broker [--gigabytes N] [--mib-per-second N]

The broker is killed and its directory removed; it had `--gigabytes` of replicas, in shards with three replicas each.
Its shards elect other leaders, and after a short delay (minutes by default) its replicas are placed on the brokers that
are left, each of which sends at most `--mib-per-second`.  A producer sends 1,000 records of 1 KB a second with acks=all
to all partitions, and four spans of time are told apart by when a record was sent:

    quiet ─ loss ─▶ failover ─▶ three brokers ─ first copied byte ─▶ copying ─▶ every shard has three replicas in sync

The figure of the failover is its longest latency.  Rates are those of each sender by its own metric, over windows of
10 s that lie within the time in which it sends; only windows as long as that say that the limit is obeyed.  CPU is in
percent of a core; that of other programs says how quiet the machine was.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, TopicMetadata
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from benchmarks.broker import CLOCK_TICKS, free_port
from benchmarks.clusters import tidemills
from benchmarks.restart import fill, size_of
from benchmarks.steady_producer import RATE, Latencies, SteadyProducer
from benchmarks.tidemill_broker import TidemillBroker

BROKERS, LOST = 4, 3  # not the first, which is the controller: its loss is another measurement
TOPIC, PARTITIONS, REPLICAS = "orders", 256, 3  # 16 shards of 16 partitions
SILENT_MS, REPLACEMENT_DELAY_MS = 5_000, 40_000
STABILIZE_SECONDS = 15.0  # longer than the 10 s in which a checkpoint of all shards follows the last write
WARM_UP_SECONDS = 5.0
QUIET_SECONDS = 30.0
FAILOVER_SECONDS = 10.0  # after the loss: elections, and clients that look for the new leaders
WINDOW_SECONDS = 10.0
SAMPLE_SECONDS = 1.0
LOOK_SECONDS = 0.5
WAIT_SECONDS_MAX = 120.0
COPY_SECONDS_MAX = 3_600.0
OFF_MAX = 0.1
MIB = 1 << 20
QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
MOVED, SYNCS, SYNC_SECONDS = (
    "tidemill_rebalance_moved_bytes_total",
    "tidemill_journal_sync_seconds_count",
    "tidemill_journal_sync_seconds_sum",
)


@dataclass(frozen=True, slots=True)
class BrokerSample:
    moved_bytes: float
    syncs: float
    sync_seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What had been used and sent until a moment."""

    at: float
    brokers: dict[int, BrokerSample]  # the live ones, by id
    producer_cpu_seconds: float
    machine_cpu_seconds: float  # of all programs

    def moved_bytes(self) -> float:
        return sum(broker.moved_bytes for broker in self.brokers.values())


class Watch:
    """Takes a sample of the live brokers once a second."""

    def __init__(self, brokers: dict[int, TidemillBroker], producer: SteadyProducer) -> None:
        self.samples: list[Sample] = []
        self._brokers = brokers
        self._producer = producer

    def until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            self.look()
            time.sleep(min(left, LOOK_SECONDS))  # samples are taken at a steady pace

    def look(self) -> None:
        """Take a sample if one is due."""
        if not self.samples or time.monotonic() - self.samples[-1].at >= SAMPLE_SECONDS:
            self.take()

    def take(self) -> None:
        now, brokers = time.monotonic(), {}
        for number, broker in self._brokers.items():
            told = broker.samples()
            brokers[number] = BrokerSample(told[MOVED], told[SYNCS], told[SYNC_SECONDS], broker.cpu_seconds())
        self.samples.append(Sample(now, brokers, self._producer.cpu_seconds(), machine_cpu_seconds()))


def machine_cpu_seconds() -> float:
    """Return the time that all cores together were busy, without waiting for disks."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) / CLOCK_TICKS


def rates(sent: Sequence[tuple[float, float]], seconds: float = WINDOW_SECONDS) -> list[float]:
    """
    Return the bytes a second in each window of `seconds` or slightly more that lies within the time in which bytes were
    sent.  `sent` has moments and the bytes until then; a window begins at each of them.
    """
    first, last = sent[0][1], sent[-1][1]
    busy = [(at, size) for at, size in sent if first < size < last]
    found = []
    for begin, size in busy:
        end = next(((at, until) for at, until in busy if at >= begin + seconds), None)
        if end is not None:
            found.append((end[1] - size) / (end[0] - begin))
    return found


def quantiles(latencies: Sequence[float]) -> dict[str, float]:
    shares = {name: latencies[int(len(latencies) * share)] * 1_000 for name, share in QUANTILES.items()}
    return {**shares, "max": latencies[-1] * 1_000, "records": len(latencies)}


def use_between(samples: Sequence[Sample], begin: float, end: float) -> dict[str, float]:
    """Return the CPU of brokers, producer and other programs, in percent of a core, and the mean time of a sync."""
    within = [sample for sample in samples if begin <= sample.at <= end]
    first, last = within[0], within[-1]
    seconds = last.at - first.at
    both = [(broker, last.brokers[number]) for number, broker in first.brokers.items() if number in last.brokers]
    brokers = sum(after.cpu_seconds - before.cpu_seconds for before, after in both)
    producer = last.producer_cpu_seconds - first.producer_cpu_seconds
    others = last.machine_cpu_seconds - first.machine_cpu_seconds - brokers - producer
    syncs = sum(after.syncs - before.syncs for before, after in both)
    return {
        "brokers_cpu_percent": 100 * brokers / seconds,
        "producer_cpu_percent": 100 * producer / seconds,
        "others_cpu_percent": 100 * others / seconds,
        "syncs_per_second": syncs / seconds,
        "sync_ms": 1_000 * sum(after.sync_seconds - before.sync_seconds for before, after in both) / max(syncs, 1),
    }


def copied(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return what each sender has sent, and its slowest and fastest window in MiB a second, if it sent for so long."""
    senders = []
    for number in samples[-1].brokers:
        sent = [(sample.at, sample.brokers[number].moved_bytes) for sample in samples]
        found = [rate / MIB for rate in rates(sent)]
        windows = {"slowest": min(found), "fastest": max(found)} if found else {}
        senders.append({"broker": number, "bytes": sent[-1][1] - sent[0][1], **windows})
    return {"bytes": sum(sender["bytes"] for sender in senders), "senders": senders}


def bounds(sent: dict[str, Any]) -> tuple[float, float] | None:
    """Return the slowest and the fastest window of all senders; None if none sent for as long as a window."""
    found = [sender for sender in sent["senders"] if "slowest" in sender]
    if not found:
        return None
    return min(sender["slowest"] for sender in found), max(sender["fastest"] for sender in found)


def is_replicated(topics: Sequence[TopicMetadata]) -> bool:
    """Return whether every partition has three replicas in sync, none of them on the lost broker."""
    return all(
        LOST not in partition.replicas
        and len(partition.isrs) >= REPLICAS
        and set(partition.replicas) <= {*partition.isrs}
        for topic in topics
        for partition in topic.partitions.values()
    )


def wait_for_brokers(admin: AdminClient) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while len(admin.list_topics(timeout=WAIT_SECONDS_MAX).brokers) < BROKERS:
        if time.monotonic() > deadline:
            raise RuntimeError(f"there are fewer than {BROKERS} brokers after {WAIT_SECONDS_MAX:.0f} s")
        time.sleep(0.05)  # poll metadata: a client has no other way to know


def watch_copies(watch: Watch, admin: AdminClient) -> float:
    """Wait until copies have begun, and then until everything is replicated again; return the moment."""
    deadline = time.monotonic() + COPY_SECONDS_MAX
    before = watch.samples[-1].moved_bytes()
    while time.monotonic() < deadline:
        watch.until(time.monotonic() + LOOK_SECONDS)
        if watch.samples[-1].moved_bytes() == before:
            continue  # clients are not asked meanwhile, so that the latency of three brokers alone is measured
        try:
            topics = [*admin.list_topics(timeout=WAIT_SECONDS_MAX).topics.values()]
        except KafkaException:
            continue  # the lost broker was asked; the next attempt asks another one
        if is_replicated(topics):
            moment = time.monotonic()
            watch.take()
            return moment
    raise RuntimeError(f"not every shard has {REPLICAS} replicas in sync after {COPY_SECONDS_MAX:.0f} s")


def measure(directory: Path, gigabytes: float, limit: int) -> dict[str, Any]:
    """Return all figures.  `limit` is in bytes a second."""
    settings: dict[str, str | int] = {
        "tidemill.broker.silent.ms": SILENT_MS,
        "tidemill.replica.replacement.delay.ms": REPLACEMENT_DELAY_MS,
        "tidemill.replica.move.bytes.per.second": limit,
        "tidemill.rebalance.disk.percent.max": 95,  # all brokers have one disk, which nothing relieves
    }
    cluster = tidemills(directory, peers=[free_port() for _ in range(BROKERS)], more=settings)
    brokers = {number: it for number, it in enumerate(cluster.brokers, 1) if isinstance(it, TidemillBroker)}
    producer: SteadyProducer | None = None
    try:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        wait_for_brokers(admin)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, REPLICAS)])[TOPIC].result(WAIT_SECONDS_MAX)
        fill(cluster.bootstrap, int(gigabytes * 1e9 * BROKERS / REPLICAS), topic=TOPIC, partitions=PARTITIONS)
        time.sleep(STABILIZE_SECONDS)
        producer = SteadyProducer(cluster.bootstrap, TOPIC, PARTITIONS)
        watch = Watch(brokers, producer)
        watch.until(time.monotonic() + WARM_UP_SECONDS)
        quiet = time.monotonic()
        watch.until(quiet + QUIET_SECONDS)
        home = directory / str(LOST) / "data"
        lost_bytes = size_of(home / "topics")
        lost = time.monotonic()
        brokers.pop(LOST).kill()
        shutil.rmtree(home)
        watch.until(lost + FAILOVER_SECONDS)
        replicated = watch_copies(watch, admin)
        watch.until(replicated + 2 * SAMPLE_SECONDS)
        return {
            "lost_bytes": lost_bytes,
            **figures(watch.samples, producer.finish(), quiet=quiet, lost=lost, replicated=replicated),
        }
    finally:
        if producer is not None:
            producer.kill()
        for broker in cluster.brokers:
            if not broker.has_ended():
                broker.stop()


def figures(
    samples: Sequence[Sample], latencies: Latencies, *, quiet: float, lost: float, replicated: float
) -> dict[str, Any]:
    """Return the figures of the spans of time that begin at these moments."""
    after = [sample for sample in samples if sample.at >= lost]
    began = [sample for sample in after if sample.moved_bytes() == after[0].moved_bytes()][-1].at
    spans = {
        "quiet": (quiet, lost),
        "three_brokers": (lost + FAILOVER_SECONDS, began),
        "copying": (began, replicated),
    }
    latency = {name: quantiles(latencies.between(*span)) for name, span in spans.items()}
    sent = copied(after)
    seconds = replicated - began
    return {
        "failover": quantiles(latencies.between(lost - SAMPLE_SECONDS, lost + FAILOVER_SECONDS)),
        **{name: {**latency[name], **use_between(samples, *span)} for name, span in spans.items()},
        "p99_ratio": latency["copying"]["p99"] / latency["quiet"]["p99"],
        "copied": {**sent, "mib_per_second": sent["bytes"] / MIB / seconds},
        "seconds": {"loss_to_copies": began - lost, "copies": seconds, "loss_to_replicated": replicated - lost},
    }


def lines(told: dict[str, Any], limit: int) -> list[str]:
    """Return the figures that are asked for as sentences, with a verdict where there is a limit."""
    sent, seconds, quiet, copying = told["copied"], told["seconds"], told["quiet"], told["copying"]
    wanted = limit / MIB
    busiest = max(sender["bytes"] for sender in sent["senders"])
    found = [
        f"full replication: {seconds['copies']:.1f} s after the first copied byte, and "
        f"{seconds['loss_to_replicated']:.1f} s after the loss of {told['lost_bytes'] / 1e6:,.0f} MB; the busiest of "
        f"{len(sent['senders'])} senders had {busiest / 1e6:,.0f} MB, {busiest / limit:.1f} s at its limit; "
        f"{sent['mib_per_second']:.1f} MiB/s in all",
    ]
    windows = bounds(sent)
    if windows is None:
        found.append(f"throttle: no broker sent for {WINDOW_SECONDS:g} s; take more gigabytes or a lower limit")
    else:
        verdict = "pass" if all(abs(rate / wanted - 1) <= OFF_MAX for rate in windows) else "miss"
        found.append(
            f"throttle: {windows[0]:.2f} to {windows[1]:.2f} MiB/s of a sender in {WINDOW_SECONDS:g} s, {wanted:g} ± "
            f"{OFF_MAX:.0%} wanted: {verdict}"
        )
    found.append(
        f"produce p99 at {RATE:,} records/s: {copying['p99']:.1f} ms while copying, {told['p99_ratio']:.2f} times the "
        f"{quiet['p99']:.1f} ms before the loss; {told['three_brokers']['p99']:.1f} ms between; failover "
        f"{told['failover']['max'] / 1_000:.2f} s at most"
    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lost_broker", description="Measure how a cluster replaces a lost broker."
    )
    parser.add_argument("--gigabytes", type=float, default=1.0, help="replicas on the lost broker; default: 1")
    parser.add_argument("--mib-per-second", type=float, default=10.0, help="limit of each sender; default: 10")
    options = parser.parse_args()
    limit = int(options.mib_per_second * MIB)
    console = Console(soft_wrap=True)
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        told = measure(Path(directory), options.gigabytes, limit)
    console.print_json(json.dumps({"load_before": load_before, "load_after": os.getloadavg()[0], **told}))
    for line in lines(told, limit):
        console.print(line, markup=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
