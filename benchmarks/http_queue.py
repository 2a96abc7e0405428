"""
Benchmark queues over HTTP beside RabbitMQ: receive and acknowledge messages of 100 bytes, in batches of 100.

    python -m benchmarks.http_queue [--messages N] [--rounds N] [--partitions N]

Tidemill's consumers keep one HTTP connection each, and acknowledge a batch in one request.  RabbitMQ's use pika, a
quorum queue, a prefetch of 100, and one acknowledgement for each message.  Both brokers run alone, and the queue is
full before the clock starts.  RabbitMQ is Debian's package `rabbitmq-server`; without it, the benchmark is skipped.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from rich.console import Console

from benchmarks import report
from benchmarks.broker import BrokerProcess, Unavailable
from benchmarks.cases import Case, Kind
from benchmarks.measure import REPOSITORY, Figures, client, prepare_machine
from benchmarks.rabbitmq import RabbitMq
from benchmarks.tidemill_broker import TidemillBroker
from benchmarks.workloads import payload

OURS: Final = "Tidemill"
YARDSTICK: Final = "RabbitMQ"
MESSAGES: Final = 50_000
MESSAGE_BYTES: Final = 100
WAIT_SECONDS_MAX: Final = 120.0
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCase(Case):
    consumers: int


CASES: Final = tuple(
    QueueCase(name=f"consumers-{consumers}", kind=Kind.SHARE, unit="messages/s", target=1.0, consumers=consumers)
    for consumers in (1, 4)
)


def measure(broker: BrokerProcess, orders: list[dict[str, Any]], messages: int) -> Figures:
    """Run consumers, each in its process, until the queue is empty."""
    command = [sys.executable, "-m", "benchmarks.queue_consumer"]
    with ExitStack() as stack:
        consumers: list[subprocess.Popen[str]] = []
        for order in orders:
            process = subprocess.Popen(
                [*command, json.dumps(order)],
                cwd=REPOSITORY,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            stack.callback(process.wait, WAIT_SECONDS_MAX)
            stack.callback(process.kill)  # called first, and without effect if it has ended
            consumers.append(process)
        for process in consumers:
            assert process.stdout is not None
            process.stdout.readline()  # it is connected
        before = broker.cpu_seconds()
        for process in consumers:
            assert process.stdin is not None
            process.stdin.write("begin\n")
            process.stdin.flush()
        answers = [json.loads(process.communicate(timeout=WAIT_SECONDS_MAX)[0] or "{}") for process in consumers]
        used = broker.cpu_seconds() - before
    count = sum(it["messages"] for it in answers)
    if count != messages:
        raise RuntimeError(f"{broker.name}: {count} of {messages} messages were acknowledged")
    seconds = max(it["ended"] for it in answers) - min(it["started"] for it in answers)
    return {"value": messages / seconds, "cpu per million": used * 1e6 / messages}


def measure_ours(broker: TidemillBroker, case: QueueCase, messages: int, partitions: int) -> Figures:
    topic, group = f"queue-{next(_numbers)}", "workers"
    client("create_topic", bootstrap=broker.bootstrap, topic=topic, partitions=partitions)
    body = json.dumps({"consumer": "first"}).encode()
    request = Request(
        f"http://{broker.http}/v1/queues/{topic}/{group}/receive", body, {"Content-Type": "application/json"}
    )
    with urlopen(request, timeout=WAIT_SECONDS_MAX) as answer:  # the group begins at the end, before the messages
        answer.read()
    load = {"record_bytes": MESSAGE_BYTES, "partitions": partitions, "one_record_per_request": False, "by_lot": True}
    client("produce", bootstrap=broker.bootstrap, topic=topic, records=messages, **load)
    orders = [
        {"kind": "http", "address": broker.http, "topic": topic, "group": group, "consumer": f"worker-{number}"}
        for number in range(case.consumers)
    ]
    return measure(broker, orders, messages)


def measure_rabbitmq(broker: RabbitMq, case: QueueCase, messages: int) -> Figures:
    import pika

    queue = f"queue-{next(_numbers)}"
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port))
    channel = connection.channel()
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    persistent = pika.BasicProperties(delivery_mode=2)
    for index in range(messages):
        channel.basic_publish("", queue, payload(index, MESSAGE_BYTES), persistent)
    until = time.monotonic() + WAIT_SECONDS_MAX
    while channel.queue_declare(queue, passive=True).method.message_count < messages:
        if time.monotonic() > until:
            raise RuntimeError(f"RabbitMQ has not taken {messages} messages after {WAIT_SECONDS_MAX:.0f} s")
        connection.sleep(0.1)  # poll: the count is the only sign
    figures = measure(broker, [{"kind": "rabbitmq", "port": broker.port, "queue": queue}] * case.consumers, messages)
    channel.queue_delete(queue)
    connection.close()
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http_queue")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=1, help="of Tidemill's topic")
    options = parser.parse_args()
    console = Console(width=130, soft_wrap=True)
    outcomes = {case.name: report.Outcome(case) for case in CASES}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemill-bench-")))
        try:
            yardstick = RabbitMq(directory / "rabbitmq")
        except Unavailable as reason:
            console.print(f"The benchmark of queues over HTTP is skipped: {reason}.", markup=False)
            return 0
        stack.callback(yardstick.stop)
        yardstick.wait_until_ready()
        broker = TidemillBroker(directory / "tidemill")
        stack.callback(broker.stop)
        broker.wait_until_ready()
        for number in range(-1, options.rounds):  # round -1 is a warm-up and is not counted
            for case in CASES:
                prepare_machine()
                for name in (OURS, YARDSTICK) if number % 2 == 0 else (YARDSTICK, OURS):
                    if name == OURS:
                        figures = measure_ours(broker, case, options.messages, options.partitions)
                    else:
                        figures = measure_rabbitmq(yardstick, case, options.messages)
                    if number >= 0:
                        outcomes[case.name].add(name, figures)
                    report.show_round(console, number, case, name, figures)
    found = list(outcomes.values())
    durability = "quorum queue, acknowledgements not awaited"
    report.show(
        found,
        ours=OURS,
        yardstick=YARDSTICK,
        notes=[],
        console=console,
        cpu="cpu per million",
        durability=durability,
    )
    path = report.save(found, ours=OURS, yardstick=YARDSTICK, notes=[], name="http-queue")
    console.print(f"saved as {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
