"""
One consumer of a queue benchmark, in a process of its own: receives and acknowledges messages until none come.

    python -m benchmarks.queue_consumer '{"kind": "http", "address": …, "topic": …, "group": …, "consumer": …}'
    python -m benchmarks.queue_consumer '{"kind": "rabbitmq", "port": …, "queue": …}'

It prints a line when it is connected, begins when it reads one, and prints a line of JSON: the number of messages, and
the moments of the first request and of the last acknowledgement on the clock that all processes share.
"""

import http.client
import json
import sys
import time
from typing import Any, Final

BATCH: Final = 100
IDLE_SECONDS: Final = 1.0  # without a message for so long, the queue is empty
TIMEOUT_SECONDS: Final = 60.0


def wait_for_start() -> float:
    print("connected", flush=True)
    sys.stdin.readline()
    return time.monotonic()


def consume_http(address: str, topic: str, group: str, consumer: str) -> dict[str, float]:
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_SECONDS)
    folder = f"/v1/queues/{topic}/{group}"

    def post(action: str, body: object) -> Any:
        connection.request("POST", f"{folder}/{action}", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise RuntimeError(f"{action}: {response.status} {answer}")
        return answer

    connection.connect()
    started = ended = wait_for_start()
    count = 0
    while True:
        wait_ms = round(IDLE_SECONDS * 1_000)
        messages = post("receive", {"consumer": consumer, "max": BATCH, "wait_ms": wait_ms})["messages"]
        if not messages:
            return {"messages": count, "started": started, "ended": ended}
        statuses = post("ack", {"receipts": [it["receipt"] for it in messages]})["statuses"]
        if set(statuses) != {"ok"}:
            raise RuntimeError(f"acknowledged with {statuses}")
        count += len(messages)
        ended = time.monotonic()


def consume_rabbitmq(port: int, queue: str) -> dict[str, float]:
    import pika

    channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)).channel()
    channel.basic_qos(prefetch_count=BATCH)
    started = ended = wait_for_start()
    count = 0
    for method, _, _ in channel.consume(queue, inactivity_timeout=IDLE_SECONDS):
        if method is None:
            break
        channel.basic_ack(method.delivery_tag, multiple=False)
        count += 1
        ended = time.monotonic()
    channel.connection.close()  # after the acknowledgements
    return {"messages": count, "started": started, "ended": ended}


def main() -> None:
    order = json.loads(sys.argv[1])
    consume = {"http": consume_http, "rabbitmq": consume_rabbitmq}[order.pop("kind")]
    print(json.dumps(consume(**order)), flush=True)


if __name__ == "__main__":
    main()
