"""The contents of the cluster in the console tests: topics, records of all kinds, and groups with lag."""

import json
import os
import time
from math import sin
from typing import Any, Final

from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

HOSTILE: Final = "<img src=x onerror=alert('record')><script>alert('record')</script>"
ORDERS: Final = 300
JOBS: Final = 60
QUEUE: Final = "mail jobs/1"  # a share group
WAIT_S: Final = 60
RECORD_BYTES: Final = 64 << 10
QUEUED_MAX: Final = 1_000  # records in the producer: 64 MiB


def fill(bootstrap: str) -> None:
    """Create topics, records of all kinds, and a group with lag."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic("orders", 6, 3, config={"retention.ms": "604800000", "max.message.bytes": "2097152"}),
        NewTopic("payments", 3, 3),
        NewTopic("clickstream", 24, 3),
        NewTopic("payloads", 1, 3),
        NewTopic("jobs", 2, 3),
    ]
    for created in admin.create_topics(topics, request_timeout=60).values():
        created.result()
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd", "linger.ms": 20})
    for number in range(ORDERS):
        producer.produce(
            "orders",
            key=f"order-{number}",
            value=json.dumps(order(number)),
            headers=[("trace-id", f"{number * 7919:016x}".encode()), ("source", b"web")],
        )
        producer.produce("payments", key=str(number), value=f"{number * 1.37 % 400:.2f} EUR captured")
        producer.produce("clickstream", value=bytes(200))
    producer.produce("payloads", key=b"\x00\xff", value=bytes(range(256)))
    producer.produce("payloads", key="tombstone", value=None)
    producer.produce("payloads", key=HOSTILE, value=HOSTILE, headers=[(HOSTILE, HOSTILE.encode())])
    producer.produce("payloads", key="large", value="0123456789" * 50_000)
    producer.flush()
    work(bootstrap)
    commit(bootstrap, "billing", [TopicPartition("orders", number, 10) for number in range(6)])
    commit(bootstrap, "fraud detection/1", [TopicPartition("payments", 0, 0)])


def fill_with_bytes(bootstrap: str, topic: str, size: int) -> None:
    """Produce about `size` bytes that do not compress."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for _ in range(size // RECORD_BYTES):
        producer.produce(topic, value=os.urandom(RECORD_BYTES))
        producer.poll(0)
        while len(producer) > QUEUED_MAX:
            producer.poll(0.1)
    producer.flush()


def work(bootstrap: str) -> None:
    """Let a member of a share group accept one job of each partition, release one, and leave the others available."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    group = ConfigResource(ResourceType.GROUP, QUEUE, incremental_configs=[earliest])
    for configured in admin.incremental_alter_configs([group]).values():
        configured.result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(JOBS):
        producer.produce("jobs", value=f"mail {number}", partition=number % 2)
    producer.flush()
    consumer = share_consumer(bootstrap)
    seen: set[int] = set()
    ends_at = time.monotonic() + WAIT_S
    while seen != {0, 1}:
        assert time.monotonic() < ends_at, f"{QUEUE} has jobs of partitions {seen} only"
        for message in [it for it in consumer.poll(1) if it.error() is None]:
            is_new = message.partition() not in seen
            consumer.acknowledge(message, AcknowledgeType.ACCEPT if is_new else AcknowledgeType.RELEASE)
            seen.add(message.partition())
        consumer.commit_sync(WAIT_S)
    consumer.close()


def share_consumer(bootstrap: str) -> ShareConsumer:
    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": QUEUE, "client.id": "mailer-1"}
        | {"share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe(["jobs"])
    return consumer


def order(number: int) -> dict[str, Any]:
    return {
        "order": number,
        "customer": f"customer-{number % 97}",
        "items": [{"sku": f"A-{number % 7}", "quantity": number % 4 + 1}],
        "total": round(number * 1.37 % 400, 2),
        "currency": "EUR",
    }


def commit(bootstrap: str, group: str, offsets: list[TopicPartition]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def steady_load(bootstrap: str, seconds: float) -> None:
    """Produce and consume records at a rate that rises and falls."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "client.id": "billing-worker-1"})
    consumer.subscribe(["orders"])
    began = time.monotonic()
    number = ORDERS
    while (elapsed := time.monotonic() - began) < seconds:
        for _ in range(round(60 + 40 * sin(elapsed / 25))):
            producer.produce("orders", key=f"order-{number}", value=json.dumps(order(number)))
            number += 1
        producer.poll(0)
        consumer.consume(120, 0.1)
    producer.flush()
