"""
Measure how long one of three brokers is unavailable when it is killed and restarted with a large log, cold and warm.

    python -m benchmarks.restart [--gigabytes N]

The data is on one broker, in partitions with one replica placed on it: three replicas would put it on this disk three
times and show nothing else.  The broker also has replicas of idle shards that other brokers lead meanwhile.  It is
killed immediately after the writes, so that its journal has bytes that no checkpoint has.  For a cold restart, the
kernel is asked to drop the cached pages of the broker's files, and the share that is still cached in a sample is
printed.  The program's own files stay cached. Full service means that every partition has acknowledged a record and
returned its newest one, and every idle shard has the broker in sync again. At the end, all files of the benchmark are
removed.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from benchmarks.broker import BrokerProcess, free_port
from benchmarks.clusters import BROKERS, three_tidemills
from benchmarks.tidemill_broker import TidemillBroker

AWAY = 3  # the killed broker: not the first, so that the metadata shard keeps its leader
TOPIC, PARTITIONS = "bulk", 24
IDLE_TOPICS = 50
VALUE_BYTES = 16 << 10
AGAIN_BYTES = 512 << 20  # written before the second kill: more than a checkpoint leaves in the journal
READ_BYTES = 8 << 20
SAMPLE_BYTES = 4 << 20  # one page per this many bytes is sampled
WAIT_SECONDS_MAX = 120.0
SECONDS_MAX = 10.0


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    placed = NewTopic(TOPIC, PARTITIONS, replica_assignment=[[AWAY]] * PARTITIONS)
    idle = [NewTopic(f"idle-{index}", 3, BROKERS) for index in range(IDLE_TOPICS)]
    for made in admin.create_topics([placed, *idle]).values():
        made.result(WAIT_SECONDS_MAX)


def fill(bootstrap: str, size: int, *, topic: str = TOPIC, partitions: int = PARTITIONS) -> None:
    """Produce `size` bytes, evenly to all partitions of a topic.  At the end, all records are acknowledged."""
    refused: list[object] = []

    def delivered(error: object, _: Message) -> None:
        if error is not None:
            refused.append(error)

    settings = {"bootstrap.servers": bootstrap, "batch.size": 1 << 20, "linger.ms": 20}
    producer = Producer({**settings, "acks": "all", "queue.buffering.max.kbytes": 128 << 10})
    value = os.urandom(VALUE_BYTES)
    for number in range(size // VALUE_BYTES):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(WAIT_SECONDS_MAX) or refused:
        raise RuntimeError(f"{len(refused)} of {size // VALUE_BYTES} records were refused: {refused[:1]}")


def files_of(directory: Path) -> Iterator[Path]:
    return (path for path in sorted(directory.rglob("*")) if path.is_file())


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in files_of(directory))


def forget_pages(directory: Path) -> None:
    os.sync()  # the kernel cannot drop dirty pages
    for path in files_of(directory):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def read_pages(directory: Path) -> None:
    for path in files_of(directory):
        with path.open("rb", buffering=0) as file:
            while file.read(READ_BYTES):
                pass


def cached_share(directory: Path) -> float:
    """Return the share of cached pages in a sample of the broker's files."""
    found: list[bool] = []
    for path in files_of(directory):
        descriptor = os.open(path, os.O_RDONLY)
        for position in range(0, path.stat().st_size, SAMPLE_BYTES):
            try:
                found.append(bool(os.preadv(descriptor, [bytearray(1)], position, os.RWF_NOWAIT)))
            except BlockingIOError:
                found.append(False)
        os.close(descriptor)
    return sum(found) / len(found)


def restart(broker: BrokerProcess, start: Callable[[], TidemillBroker], prepare: Callable[[], None]) -> BrokerProcess:
    """Kill the broker, call `prepare`, which may drop its cached pages, and start it again."""
    broker.kill()
    prepare()
    return start()


def seconds_to_service(broker: BrokerProcess, bootstrap: str) -> dict[str, float]:
    """
    Return the seconds from the process start to each step.  `cpu` is the CPU time, which other programs affect less.
    """
    broker.wait_until_ready()
    ready = time.monotonic() - broker.started_at
    acknowledged: set[int] = set()

    def delivered(error: object, message: Message) -> None:
        if error is None:
            acknowledged.add(message.partition() or 0)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, b"again", partition=partition, on_delivery=delivered)
    producer.flush(WAIT_SECONDS_MAX)
    written = time.monotonic() - broker.started_at
    if len(acknowledged) < PARTITIONS:
        raise RuntimeError(f"{PARTITIONS - len(acknowledged)} partitions acknowledged nothing")
    read_newest(bootstrap)
    read = time.monotonic() - broker.started_at
    wait_until_in_sync(bootstrap)
    full = time.monotonic() - broker.started_at
    return {"ready": ready, "written": written, "read": read, "full": full, "cpu": broker.cpu_seconds()}


def read_newest(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "restart", "enable.auto.commit": False})
    missing = set(range(PARTITIONS))
    ends = {it: consumer.get_watermark_offsets(TopicPartition(TOPIC, it), WAIT_SECONDS_MAX)[1] for it in missing}
    consumer.assign([TopicPartition(TOPIC, it, end - 1) for it, end in ends.items()])
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while missing and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            missing.discard(message.partition() or 0)
    consumer.close()
    if missing:
        raise RuntimeError(f"partitions {sorted(missing)} gave nothing within {WAIT_SECONDS_MAX:.0f} s")


def wait_until_in_sync(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            topics = admin.list_topics(timeout=WAIT_SECONDS_MAX).topics
        except KafkaException:
            continue  # the killed broker was asked; the next attempt asks another one
        partitions = [it for topic in topics.values() for it in topic.partitions.values()]
        if all(it.leader >= 0 and AWAY in it.isrs for it in partitions):
            return
        time.sleep(0.05)  # poll metadata: a client has no other way to know
    raise RuntimeError(f"not every shard has broker {AWAY} in sync after {WAIT_SECONDS_MAX:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.restart", description="Measure the time of a restart.")
    parser.add_argument("--gigabytes", type=float, default=10)
    gigabytes = parser.parse_args().gigabytes
    console = Console(soft_wrap=True)
    figures: dict[str, object] = {"load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        peers = [free_port() for _ in range(BROKERS)]
        cluster = three_tidemills(Path(directory), peers=peers)
        brokers = [*cluster.brokers]
        home = Path(directory) / str(AWAY)
        settings: dict[str, str | int] = {
            "broker.id": AWAY,
            "tidemill.peer.listener": f"127.0.0.1:{peers[AWAY - 1]}",
            "tidemill.join": f"127.0.0.1:{peers[0]}",
        }
        port = int(brokers[AWAY - 1].bootstrap.rpartition(":")[2])
        try:
            create_topics(cluster.bootstrap)
            written = int(gigabytes * 1e9)
            for name, pages in (("cold", forget_pages), ("warm", read_pages)):
                fill(cluster.bootstrap, written)
                written = AGAIN_BYTES
                brokers[AWAY - 1] = restart(
                    brokers[AWAY - 1],
                    lambda: TidemillBroker(home, port=port, settings=settings),
                    lambda pages=pages: pages(home / "data"),  # type: ignore[misc]
                )
                shares = {"bytes": size_of(home / "data"), "cached_share": cached_share(home / "data")}
                figures[name] = {**shares, **seconds_to_service(brokers[AWAY - 1], cluster.bootstrap)}
        finally:
            for broker in brokers:
                if not broker.has_ended():
                    broker.stop()
    figures["load_after"] = os.getloadavg()[0]
    console.print_json(json.dumps(figures))
    for name in ("cold", "warm"):
        seconds = figures[name]["full"]  # type: ignore[index]
        verdict = "pass" if seconds <= SECONDS_MAX else "miss"
        console.print(f"restart, {name}: {seconds:.1f} s, at most {SECONDS_MAX:g} wanted: {verdict}", markup=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
