"""
Measure one case in one round with one broker: run a client process, and count the CPU seconds of the broker.

Memory that the machine has never touched is many times slower to write, and so are fresh disk blocks when the cache is
full.  So three gigabytes are touched and the disk is synced before every measurement.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.broker import Broker, BrokerProcess, free_port
from benchmarks.cases import Case, Kind, Load

REPOSITORY = Path(__file__).resolve().parent.parent
CLIENT_SECONDS_MAX = 300.0
TOUCHED_BYTES = 3 << 30
STABILIZE_SECONDS = 3.0  # an idle broker's memory is measured this long after it is ready

Figures = dict[str, float]  # "value" of the case, "cpu" seconds of the broker, quantiles of latency
StartBroker = Callable[[Path, int], BrokerProcess]


def prepare_machine() -> None:
    """Touch memory in a separate process, which returns it to the system, and write all dirty pages to disk."""
    touch = f"memory = bytearray(b'x') * {TOUCHED_BYTES}"
    subprocess.run([sys.executable, "-c", touch], check=True)
    os.sync()


def client(do: str, **order: object) -> Figures:
    command = [sys.executable, "-m", "benchmarks.workloads", json.dumps({"do": do, **order})]
    outcome = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=CLIENT_SECONDS_MAX)
    if outcome.returncode != 0:
        raise RuntimeError(f"the client failed at {do}: {outcome.stderr.strip().splitlines()[-1:]}")
    figures: Figures = json.loads(outcome.stdout.splitlines()[-1])
    return figures


class Bench:
    """Runs the measurements of one broker.  In a round, cases with the same load share a topic."""

    def __init__(self, broker: Broker, *, replication_factor: int = 1) -> None:
        self._broker = broker
        self._replication_factor = replication_factor
        self._topics: dict[Load, str] = {}
        self._topic_count = 0

    def measure(self, case: Case) -> Figures:
        match case.kind:
            case Kind.PRODUCE:
                return self._with_cpu(lambda: self._produce(case.load))
            case Kind.CONSUME:
                if case.load not in self._topics:
                    self._produce(case.load)
                prepare_machine()
                topic = self._topics[case.load]
                order = {"bootstrap": self._broker.bootstrap, "topic": topic, "records": case.load.records}
                return self._with_cpu(lambda: client("consume", **order))
            case Kind.LATENCY:
                return self._with_cpu(lambda: self._latency(case.load))
            case Kind.MEMORY_IDLE | Kind.MEMORY_AFTER:
                return {"value": self._broker.resident_bytes() / 1e6}
            case Kind.START:
                raise ValueError("a start is measured on a separate broker: see start_seconds")
            case Kind.SHARE | Kind.TIMER:
                raise ValueError("share groups and timers are measured with other clients: see share_groups, timers")

    def drop_topics(self) -> None:
        """Delete the topics of this round, so that every round starts with equally much data on the disk."""
        for topic in self._topics.values():
            client("delete_topic", bootstrap=self._broker.bootstrap, topic=topic)
        self._topics.clear()

    def _with_cpu(self, work: Callable[[], Figures]) -> Figures:
        before = self._broker.cpu_seconds()
        figures = work()
        return {**figures, "cpu": self._broker.cpu_seconds() - before}

    def _new_topic(self, load: Load) -> str:
        self._topic_count += 1
        topic = f"bench-{self._topic_count}"
        client(
            "create_topic",
            bootstrap=self._broker.bootstrap,
            topic=topic,
            partitions=load.partitions,
            replication_factor=self._replication_factor,
        )
        if load in self._topics:
            client("delete_topic", bootstrap=self._broker.bootstrap, topic=self._topics[load])
        self._topics[load] = topic
        return topic

    def _produce(self, load: Load) -> Figures:
        topic = self._new_topic(load)
        return client(
            "produce",
            bootstrap=self._broker.bootstrap,
            topic=topic,
            records=load.records,
            record_bytes=load.record_bytes,
            partitions=load.partitions,
            one_record_per_request=load.one_record_per_request,
            by_lot=load.by_lot,
        )

    def _latency(self, load: Load) -> Figures:
        figures = client(
            "latency",
            bootstrap=self._broker.bootstrap,
            topic=self._new_topic(load),
            records=load.records,
            record_bytes=load.record_bytes,
            partitions=load.partitions,
        )
        return {"value": figures["p50"], **figures}


def start_seconds(start: StartBroker) -> Figures:
    """
    Return the time from the process's start on an empty (Kafka: formatted) directory to the first acknowledged record.
    """
    port = free_port()
    order = {"do": "first_acknowledged", "bootstrap": f"127.0.0.1:{port}", "topic": "first"}
    command = [sys.executable, "-m", "benchmarks.workloads", json.dumps(order)]
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory,
        subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as waiting,
    ):
        assert waiting.stdout is not None
        waiting.stdout.readline()  # the client is running and retries to connect
        broker = start(Path(directory), port)
        try:
            moment = json.loads(waiting.stdout.readline())["moment"]
            return {"value": moment - broker.started_at, "cpu": broker.cpu_seconds()}
        finally:
            broker.stop()


def idle_memory(broker: Broker) -> Figures:
    time.sleep(STABILIZE_SECONDS)  # until the broker is idle
    return {"value": broker.resident_bytes() / 1e6}
