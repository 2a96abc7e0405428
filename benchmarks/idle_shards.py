"""
Measure the cost of idle shards: three brokers, a thousand shards of three replicas each.

    python -m benchmarks.idle_shards [--topics N]

Each topic has three partitions, and so three shards.  The figure CPU is the use of each broker in percent of a core
while no client is active.  The figures with one broker down are those of the other two, which lead everything.  The
figure for waking is the time from sending one record to every partition until all are acknowledged.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from benchmarks.broker import BrokerProcess
from benchmarks.clusters import BROKERS, three_tidemills

PARTITIONS = 3
TOPICS_PER_REQUEST = 50
STABILIZE_SECONDS = 12.0  # longer than the 10 s in which a checkpoint of all shards follows the last write
QUIET_SECONDS = 30.0
WAIT_SECONDS_MAX = 60.0
CPU_PERCENT_MAX, MEMORY_MB_MAX, WAKE_SECONDS_MAX = 3.0, 150.0, 10.0


def create_topics(bootstrap: str, topics: int) -> float:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.list_topics(timeout=WAIT_SECONDS_MAX)
    started = time.monotonic()
    for first in range(0, topics, TOPICS_PER_REQUEST):
        names = [f"idle-{index}" for index in range(first, min(topics, first + TOPICS_PER_REQUEST))]
        for made in admin.create_topics([NewTopic(name, PARTITIONS, BROKERS) for name in names]).values():
            made.result(WAIT_SECONDS_MAX)
    return time.monotonic() - started


def quiet(brokers: Sequence[BrokerProcess]) -> list[dict[str, float]]:
    time.sleep(STABILIZE_SECONDS)
    before = [broker.cpu_seconds() for broker in brokers]
    time.sleep(QUIET_SECONDS)  # the idle time that is measured
    return [
        {"cpu_percent": 100 * (broker.cpu_seconds() - used) / QUIET_SECONDS, "memory_mb": broker.resident_bytes() / 1e6}
        for broker, used in zip(brokers, before, strict=True)
    ]


def seconds_until_led(bootstrap: str, dead: int) -> float:
    """Wait until every partition has a leader other than the broker that was killed."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    started = time.monotonic()
    while time.monotonic() - started < WAIT_SECONDS_MAX:
        topics = admin.list_topics(timeout=WAIT_SECONDS_MAX).topics.values()
        if all(partition.leader not in (-1, dead) for topic in topics for partition in topic.partitions.values()):
            return time.monotonic() - started
        time.sleep(0.05)  # poll metadata: a client has no other way to know
    raise RuntimeError(f"partitions are without a leader {WAIT_SECONDS_MAX:.0f} s after broker {dead} was killed")


def wake(bootstrap: str, topics: int) -> float:
    acknowledged: list[bool] = []

    def delivered(error: object, _: Message) -> None:
        acknowledged.append(error is None)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    producer.list_topics(timeout=WAIT_SECONDS_MAX)
    started = time.monotonic()
    for index in range(topics):
        for partition in range(PARTITIONS):
            producer.produce(f"idle-{index}", b"x", partition=partition, on_delivery=delivered)
    left = producer.flush(WAIT_SECONDS_MAX)
    if left or not all(acknowledged) or len(acknowledged) != topics * PARTITIONS:
        raise RuntimeError(f"{left} of {topics * PARTITIONS} records unanswered, {acknowledged.count(False)} refused")
    return time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.idle_shards", description="Measure the cost of idle shards."
    )
    parser.add_argument("--topics", type=int, default=334)
    topics = parser.parse_args().topics
    console = Console(soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        cluster = three_tidemills(Path(directory))
        try:
            figures: dict[str, object] = {"shards": topics * PARTITIONS}
            figures["create_seconds"] = create_topics(cluster.bootstrap, topics)
            figures["idle"] = quiet(cluster.brokers)
            survivors = cluster.brokers[1:]
            bootstrap = ",".join(broker.bootstrap for broker in survivors)
            cluster.brokers[0].kill()
            figures["led_again_seconds"] = seconds_until_led(bootstrap, dead=1)
            figures["wake_seconds"] = wake(bootstrap, topics)
            figures["one_down"] = quiet(survivors)
        finally:
            for broker in cluster.brokers:
                if not broker.has_ended():
                    broker.stop()
    console.print_json(json.dumps(figures))
    rests = [*figures["idle"], *figures["one_down"]]  # type: ignore[misc]
    cpu, memory = (max(rest[name] for rest in rests) for name in ("cpu_percent", "memory_mb"))
    for name, value, most, unit in (
        ("CPU at rest", cpu, CPU_PERCENT_MAX, "% of a core"),
        ("memory", memory, MEMORY_MB_MAX, "MB"),
        ("waking all", figures["wake_seconds"], WAKE_SECONDS_MAX, "s"),
    ):
        verdict = "pass" if value <= most else "miss"  # type: ignore[operator]
        console.print(f"{name}: {value:.1f} {unit}, at most {most:g} wanted: {verdict}", markup=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
