"""A consumer group with one active member."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, ShareConsumer

ASSIGNED_S_MAX = 30.0


@contextmanager
def member_of(bootstrap: str, group: str, topic: str, client_id: str = "reader") -> Iterator[None]:
    """Yield while a consumer of this process is the group's only member; it owns every partition of the topic."""
    assigned = []
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client_id,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
        deadline = time.monotonic() + ASSIGNED_S_MAX
        while not assigned:
            consumer.poll(0.1)
            assert time.monotonic() < deadline, f"{group} has no assignment"
        yield
    finally:
        consumer.close()


@contextmanager
def share_member_of(bootstrap: str, group: str, topic: str, client_id: str = "sharer") -> Iterator[ShareConsumer]:
    """Yield a share consumer of this process, the group's only member."""
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client_id,
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        yield consumer
    finally:
        consumer.close()
