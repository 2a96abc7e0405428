"""
Benchmark the production of lines of JSON over HTTP, in one connection.

    python -m benchmarks.http_produce [--records N] [--rounds N]

The same body goes to one Tidemill broker and to a bare application in the same HTTP server, which drops it
(`http_sink`), in turns; every second round begins with the other side.  In each round, confluent-kafka produces as many
records of the same size.  The CPU seconds are the broker's, per million records.
"""

import argparse
import itertools
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks import report
from benchmarks.broker import BrokerProcess, free_port, wait_for_port
from benchmarks.cases import Case, Kind
from benchmarks.measure import Figures, client, prepare_machine
from benchmarks.tidemill_broker import TidemillBroker
from benchmarks.workloads import payload

OURS: Final = "Tidemill, lines over HTTP"
SINK: Final = "bare HTTP server"
KAFKA: Final = "Tidemill, confluent-kafka"
RECORDS: Final = 500_000
RECORD_BYTES: Final = 100
PARTITIONS: Final = 2
KEYS: Final = 10_000
PART_BYTES: Final = 256 << 10  # of one call to send
READY_SECONDS_MAX: Final = 30.0
CLIENT_SECONDS_MAX: Final = 120.0
WANTED: Final = 100_000
CASES: Final = tuple(
    Case(name=name, kind=Kind.PRODUCE, unit="records/s", target=None, bound=WANTED) for name in ("lines", "lines-keys")
)
_numbers = itertools.count()


class Sink(BrokerProcess):
    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "benchmarks.http_sink", str(self.port)]
        super().__init__(SINK, command, log=directory / "sink.log", environment={})

    def wait_until_ready(self) -> None:
        wait_for_port(self.port, self, seconds_max=READY_SECONDS_MAX)


def body_of(case: Case, records: int) -> bytes:
    """Return the lines of a case."""
    values = (payload(index, RECORD_BYTES).decode("latin-1") for index in range(records))
    if case.name == "lines":
        return b"".join(json.dumps({"value": value}).encode() + b"\n" for value in values)
    keyed = ({"key": f"key-{index % KEYS}", "value": value} for index, value in enumerate(values))
    return b"".join(json.dumps(it).encode() + b"\n" for it in keyed)


def sent(address: str, topic: str, body: bytes) -> tuple[float, bytes]:
    """Return the seconds until the end of the response, and the response."""
    host, _, port = address.rpartition(":")
    head = (
        f"POST /v1/topics/{topic}/records HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/x-ndjson\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    view, answer = memoryview(body), bytearray()
    started = time.perf_counter()
    with socket.create_connection((host, int(port)), timeout=CLIENT_SECONDS_MAX) as connection:
        connection.sendall(head.encode())
        for first in range(0, len(view), PART_BYTES):
            connection.sendall(view[first : first + PART_BYTES])
        while part := connection.recv(PART_BYTES):
            answer += part
    return time.perf_counter() - started, bytes(answer)


def measured(process: BrokerProcess, address: str, topic: str, body: bytes, records: int) -> Figures:
    before = process.cpu_seconds()
    seconds, answer = sent(address, topic, body)
    if not answer.startswith(b"HTTP/1.1 200") or (process.name != SINK and b'"records": %d' % records not in answer):
        raise RuntimeError(f"{process.name} has not taken {records} records: {answer[:500]!r}")
    return {"value": records / seconds, "cpu per million": (process.cpu_seconds() - before) * 1e6 / records}


def measured_kafka(broker: TidemillBroker, topic: str, records: int) -> Figures:
    before = broker.cpu_seconds()
    order = {"record_bytes": RECORD_BYTES, "partitions": PARTITIONS, "one_record_per_request": False, "by_lot": True}
    figures = client("produce", bootstrap=broker.bootstrap, topic=topic, records=records, **order)
    return {"value": figures["value"], "cpu per million": (broker.cpu_seconds() - before) * 1e6 / records}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http_produce")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    console = Console(width=150, soft_wrap=True)
    outcomes = {case.name: report.Outcome(case) for case in CASES}
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        broker, sink = TidemillBroker(Path(directory) / "tidemill"), Sink(Path(directory))
        try:
            broker.wait_until_ready()
            sink.wait_until_ready()
            bodies = {case.name: body_of(case, options.records) for case in CASES}
            prepare_machine()
            for number in range(-1, options.rounds):  # round -1 is a warm-up and is not counted
                for case in CASES:
                    for side in _sides(broker, sink, bodies[case.name], options.records, number):
                        name, figures = side()
                        if number >= 0:
                            outcomes[case.name].add(name, figures)
                        report.show_round(console, number, case, name, figures)
        finally:
            sink.stop()
            broker.stop()
    found = list(outcomes.values())
    notes = [f"{it.case.name}: {KAFKA}: {it.median(KAFKA):,.0f} records/s" for it in found if it.median(KAFKA)]
    report.show(
        found,
        ours=OURS,
        yardstick=SINK,
        notes=notes,
        console=console,
        cpu="cpu per million",
        durability="nothing written",
    )
    path = report.save(found, ours=OURS, yardstick=SINK, notes=notes, name="http-produce")
    console.print(f"saved as {path.name}")
    return 0


def _sides(
    broker: TidemillBroker, sink: Sink, body: bytes, records: int, number: int
) -> list[Callable[[], tuple[str, Figures]]]:
    """Return the measurements of a round, each on a new topic."""
    topics = [f"lines-{next(_numbers)}" for _ in range(2)]
    for topic in topics:
        client("create_topic", bootstrap=broker.bootstrap, topic=topic, partitions=PARTITIONS)
    sides: list[Callable[[], tuple[str, Figures]]] = [
        lambda: (OURS, measured(broker, broker.http, topics[0], body, records)),
        lambda: (SINK, measured(sink, f"127.0.0.1:{sink.port}", topics[0], body, records)),
        lambda: (KAFKA, measured_kafka(broker, topics[1], records)),
    ]
    return sides if number % 2 == 0 else sides[::-1]


if __name__ == "__main__":
    sys.exit(main())
