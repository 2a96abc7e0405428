"""Send all flights of 2013 through a broker, a consumer group, Spark and pipelines, and count and check every row.

    python -m examples.demo [--bootstrap HOST:PORT | --brokers N]

The demo starts `tidemill dev` on free ports, unless --bootstrap names a broker.  With --brokers 3, it kills the leader
of every shard once meanwhile and restarts it.  A streaming query enriches the flights with weather and planes and
writes them to a second topic.  Pipelines archive both topics, prove that the archives equal them, and draw a page of
statistics.  The demo fails if a single row is missing.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples import enrichment, flights
from examples.enrichment import WITHOUT_PLANE_COUNT, WITHOUT_WEATHER_COUNT
from examples.failure import DemoFailed, check
from examples.flights import FLIGHT_COUNT, NO_DELAY_COUNT, FlightTable
from examples.leader_kills import RECORDS_PER_BREATH, Calm, LeaderKills
from examples.parquet_files import check_parquet, spark_session, with_bar, write_parquet
from examples.pipeline_runs import PipelineRuns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "flights"
ENRICHED = "flights-enriched"
PARTITION_COUNT = 6
MEMBER_COUNT = 2
OUTPUT = Path("demo-output")
SOURCE = Path(__file__).resolve().parent.parent / "src"
QUIET_SECONDS_MAX = 60  # a step without progress for this long has failed
START_SECONDS_MAX = 30

console = Console()


@dataclass(frozen=True)
class Figure:
    """One line of the final table."""

    what: str
    rows: int
    seconds: float


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bootstrap", metavar="HOST:PORT", help="a running broker")
    arguments.add_argument("--brokers", metavar="N", type=int, default=1, help="how many; from 3 on leaders are killed")
    wanted = arguments.parse_args()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    began = time.monotonic()
    try:
        with running_brokers(wanted.bootstrap, wanted.brokers) as (bootstrap, kills):
            show(run(bootstrap, min(wanted.brokers, 3), kills), time.monotonic() - began)
            console.print(kills.told())
    except (DemoFailed, KafkaException) as failure:
        console.print(f"[bold red]The demo failed:[/] {failure}")
        sys.exit(1)


def run(bootstrap: str, replication_factor: int, kills: Calm) -> list[Figure]:
    create_topic(bootstrap, TOPIC, replication_factor)
    table = FlightTable()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        produced = timed("produced", lambda: produce(bootstrap, table, progress, kills))
        consumed = timed("consumed by a group of two", lambda: consume(bootstrap, progress, kills))
        spark = spark_session(
            OUTPUT, python_path()
        )  # Spark finds `format("tidemill")` only in the thread of its session
        try:
            path = OUTPUT / "flights.parquet"
            read = timed("read by Spark into Parquet", lambda: write_parquet(spark, bootstrap, TOPIC, path, progress))
            means = check_parquet(spark, path, table)
            create_topic(bootstrap, ENRICHED, replication_factor)
            enriched = timed("enriched by Spark", lambda: enrich(spark, bootstrap, table, progress))
            pipelines = PipelineRuns(spark, bootstrap, OUTPUT, progress)
            archived = [
                timed(f"archived, compared: {topic}", lambda topic=topic: pipelines.archive(topic, FLIGHT_COUNT))
                for topic in (TOPIC, ENRICHED)
            ]
            counted = timed("counted for the page", lambda: pipelines.stats(TOPIC, table))
        finally:
            spark.stop()
    check("rows produced", FLIGHT_COUNT, produced.rows)
    check("rows consumed", FLIGHT_COUNT, consumed.rows)
    check("rows read by Spark", FLIGHT_COUNT, read.rows)
    check("flights without a delay in the package", NO_DELAY_COUNT, table.no_delay_count)
    show_means(means)
    return [produced, consumed, read, enriched, *archived, counted]


def timed(what: str, act: Callable[[], int]) -> Figure:
    began = time.monotonic()
    rows = act()
    return Figure(what, rows, time.monotonic() - began)


# Functions that start the brokers.


@contextlib.contextmanager
def running_brokers(bootstrap: str | None, count: int) -> Iterator[tuple[str, Calm]]:
    """Use `bootstrap`, or run `tidemill dev` on free ports with its own directory.  Yield the addresses, and the object
    that kills leaders.
    """
    if bootstrap is not None:
        console.print(f"Broker: {bootstrap}")
        yield bootstrap, Calm()
        return
    command = [
        sys.executable,
        "-m",
        "tidemill",
        "dev",
        "--json",
        "--data",
        str(OUTPUT / "data"),
        "--brokers",
        str(count),
    ]
    environment = {**os.environ, "PYTHONPATH": python_path()}
    kills = Calm()
    with (OUTPUT / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
        )
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise DemoFailed(f"`tidemill dev` did not start; see {OUTPUT / 'broker.log'}")
            ready = json.loads(line)
            brokers = ready.get("brokers", [ready])
            addresses = ",".join(broker["kafka"] for broker in brokers)
            console.print(f"Broker: `tidemill dev` at {addresses}")
            if count >= 3:  # fewer brokers do not survive a kill
                kills = LeaderKills(brokers, OUTPUT, environment, console.print)
            yield addresses, kills
        finally:
            kills.close()
            process.terminate()
            process.wait(START_SECONDS_MAX)
            process.stdout.close()


def python_path() -> str:
    """Return a PYTHONPATH with the source, so that the demo runs from a checkout too."""
    return os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])


def create_topic(bootstrap: str, name: str, replication_factor: int) -> None:
    """Create the topic with unlimited retention: records of 2013 are older than the default."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, PARTITION_COUNT, replication_factor, config={"retention.ms": "-1"})
    admin.create_topics([topic])[name].result(START_SECONDS_MAX)


# Functions that produce.


def produce(bootstrap: str, table: FlightTable, progress: Progress, kills: Calm) -> int:
    """Send all flights, and return the number of records that the broker has acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": "lz4",
            "log_level": kills.client_log_level,  # lost connections are expected during kills
        }
    )
    bar = progress.add_task("Producing", total=FLIGHT_COUNT)
    acknowledged = 0

    def delivered(error: object, record: Message) -> None:
        nonlocal acknowledged
        if error is not None:
            raise DemoFailed(f"a record was refused: {error}")
        kills.waited(record.latency())
        acknowledged += 1

    kills.begin()
    for number, flight in enumerate(flights.read(table), 1):
        while True:
            try:
                producer.produce(TOPIC, flight.value, flight.key, timestamp=flight.timestamp_ms, on_delivery=delivered)
                break
            except BufferError:  # the client's queue is full: wait until it has sent some records
                producer.poll(0.1)
        if number % RECORDS_PER_BREATH == 0:
            kills.breathe()
            producer.poll(0)
            progress.update(bar, completed=acknowledged)
    producer.flush(QUIET_SECONDS_MAX)
    progress.update(bar, completed=acknowledged)
    kills.finish()
    return acknowledged


# Functions that consume.


class GroupCount:
    """The records that all members have received: each offset must reach exactly one of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[tuple[int, int]] = set()
        self._assigned: dict[int, int] = {}  # number of assigned partitions by member
        self.received = [0] * MEMBER_COUNT
        self.repeated = 0
        self.has_been_shared = False
        self.failures: list[Exception] = []

    def assigned(self, member: int, count: int) -> None:
        with self._lock:
            self._assigned[member] = count

    def is_shared(self) -> bool:
        """Return whether both members have partitions and none is unassigned, the condition for reading to begin."""
        with self._lock:
            held = list(self._assigned.values())
        is_shared = len(held) == MEMBER_COUNT and min(held) > 0 and sum(held) == PARTITION_COUNT
        self.has_been_shared |= is_shared
        return is_shared

    def add(self, member: int, messages: list[Message]) -> None:
        places = {(m.partition(), m.offset()) for m in messages}
        with self._lock:
            self.repeated += len(messages) - len(places - self._seen)
            self._seen |= places
            self.received[member] += len(messages)

    @property
    def total(self) -> int:
        return len(self._seen)


def consume(bootstrap: str, progress: Progress, kills: Calm) -> int:
    """Read with two members of one group, one thread each; return the number of distinct records."""
    count, done = GroupCount(), threading.Event()
    bar = progress.add_task("Consuming, group of two", total=FLIGHT_COUNT)
    members = [
        threading.Thread(target=read_as_member, args=(bootstrap, member, count, done, kills))
        for member in range(MEMBER_COUNT)
    ]
    for thread in members:
        thread.start()
    last, moved_at, has_begun = 0, time.monotonic(), False
    while not count.failures and (count.total < FLIGHT_COUNT or not (has_begun and kills.is_over)):
        if count.total < FLIGHT_COUNT and time.monotonic() > moved_at + QUIET_SECONDS_MAX:
            break
        if count.has_been_shared and not has_begun:
            kills.begin()  # the group has a coordinator now, which can be killed
            has_begun = True
        time.sleep(0.05)  # update interval of the progress bar
        if count.total != last:
            last, moved_at = count.total, time.monotonic()
        progress.update(bar, completed=last)
    done.set()
    for thread in members:
        thread.join(QUIET_SECONDS_MAX)
    progress.update(bar, completed=count.total)
    if count.failures:
        raise DemoFailed(f"a consumer failed: {count.failures[0]}")
    if not count.has_been_shared:
        raise DemoFailed(f"the group did not give both members partitions within {QUIET_SECONDS_MAX} s")
    if min(count.received) == 0:
        raise DemoFailed(f"one member of the group received nothing: {count.received}")
    kills.finish()
    check("records received twice", 0, count.repeated)
    return count.total


def read_as_member(bootstrap: str, member: int, count: GroupCount, done: threading.Event, kills: Calm) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "flights-demo",
            "client.id": f"member-{member}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,
            "log_level": kills.client_log_level,
        }
    )
    waiting: list[TopicPartition] = []

    def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign(partitions)
        consumer.pause(partitions)  # until both members have joined; otherwise this one would read everything
        waiting[:] = partitions
        count.assigned(member, len(partitions))

    def on_revoke(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        count.assigned(member, 0)

    try:
        consumer.subscribe([TOPIC], on_assign=on_assign, on_revoke=on_revoke)
        while not done.is_set():
            messages = consumer.consume(2_000 if kills.is_over else RECORDS_PER_BREATH, 0.1)
            kills.breathe()
            if waiting and count.is_shared():
                consumer.resume(waiting)
                waiting.clear()
            failed = [message.error() for message in messages if message.error()]
            if failed:
                raise KafkaException(failed[0])
            count.add(member, messages)
        if count.received[member]:
            consumer.commit(asynchronous=False)
    except Exception as failure:
        count.failures.append(failure)
        raise
    finally:
        consumer.close()


def enrich(spark: "SparkSession", bootstrap: str, table: FlightTable, progress: Progress) -> int:
    """Write the flights with weather and planes to the second topic, and return the number of rows in it."""
    act = partial(enrichment.enrich, spark, bootstrap, TOPIC, ENRICHED, OUTPUT / "state" / "enrich")
    with_bar(spark, progress, "Spark: enrich the flights", act)
    found = enrichment.read_back(spark, bootstrap, ENRICHED)
    enrichment.Enriched.expected(table).check(found)
    check("flights without weather in the package", WITHOUT_WEATHER_COUNT, found.without_weather)
    check("flights without a known plane in the package", WITHOUT_PLANE_COUNT, found.without_plane)
    return found.rows


# Functions that print the final tables.


def show_means(means: dict[str, float]) -> None:
    table = Table(title="Mean departure delay, equal to the package's own table")
    table.add_column("carrier")
    table.add_column("minutes", justify="right")
    for carrier, mean in sorted(means.items(), key=lambda pair: -pair[1]):
        table.add_row(carrier, f"{mean:.2f}")
    console.print(table)


def show(figures: list[Figure], seconds: float) -> None:
    table = Table(title=f"All {FLIGHT_COUNT:,} flights arrived, in {seconds:.0f} s")
    for column in ("", "rows", "seconds", "rows/s"):
        table.add_column(column, justify="left" if not column else "right")
    for figure in figures:
        table.add_row(figure.what, f"{figure.rows:,}", f"{figure.seconds:.1f}", f"{figure.rows / figure.seconds:,.0f}")
    console.print(table)
    console.print(f"Parquet by month: {OUTPUT / 'flights.parquet'}, archives: {OUTPUT / 'archive'}")
    console.print(f"Statistics: {OUTPUT / 'stats' / 'index.html'}")


if __name__ == "__main__":
    main()
