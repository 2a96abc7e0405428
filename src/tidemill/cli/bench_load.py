"""The load of a benchmark: its options, the values that it sends, and the topic that it uses."""

import random
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tidemill.cli.failure import Failed
from tidemill.cli.kafka import client_config
from tidemill.cli.topic_admin import TopicAdmin

WARM_UP_RECORDS_MAX: Final = 10_000
VALUES: Final = 1_000  # distinct values, sent in turn: generating a value per record would be measured, too
VALUES_BYTES_MAX: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchLoad:
    bootstrap: str
    topic: str | None  # None: a temporary topic
    records: int
    seconds: float
    size: int
    partitions: int  # partition count of the temporary topic
    replication_factor: int | None
    acks: str
    compression: str
    linger_ms: float

    @property
    def warm_up_records(self) -> int:
        return min(self.records // 10, WARM_UP_RECORDS_MAX)

    def values(self) -> list[bytes]:
        """Return the values to send in turn: hex digits, the same in every run."""
        digits = random.Random(0)
        count = max(1, min(VALUES, VALUES_BYTES_MAX // self.size))
        return [digits.randbytes((self.size + 1) // 2).hex().encode()[: self.size] for _ in range(count)]

    def producer_config(self) -> dict[str, Any]:
        return client_config(
            self.bootstrap,
            **{
                "acks": self.acks,
                "compression.type": self.compression,
                "enable.idempotence": self.acks == "all",
                "linger.ms": self.linger_ms,
                "message.max.bytes": max(1_000_000, 2 * self.size),
            },
        )

    def described(self) -> dict[str, Any]:
        """Return the options as they appear in a result."""
        return {
            "size": self.size,
            "acks": self.acks,
            "compression": self.compression,
            "linger_ms": self.linger_ms,
            "warm_up_records": self.warm_up_records,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTopic:
    name: str
    partitions: list[int]
    is_temporary: bool
    admin: TopicAdmin


@contextmanager
def bench_topic(load: BenchLoad) -> Iterator[BenchTopic]:
    """Yield the topic that `load` names, or else a temporary topic, which is deleted at the end."""
    admin = TopicAdmin(load.bootstrap)
    if load.topic is not None:
        yield BenchTopic(name=load.topic, partitions=admin.partitions_of(load.topic), is_temporary=False, admin=admin)
        return
    name = f"tidemill-bench-{uuid.uuid4().hex[:12]}"
    try:
        admin.create(name, load.partitions, load.replication_factor, {})
        partitions = list(admin.leader_nodes_of_new(name))
        yield BenchTopic(name=name, partitions=partitions, is_temporary=True, admin=admin)
    finally:
        _delete(admin, name)


def _delete(admin: TopicAdmin, name: str) -> None:
    try:
        admin.delete(name)
    except Failed as problem:  # printed, not raised: it would hide the error that ended the benchmark
        if problem.name != "UNKNOWN_TOPIC_OR_PARTITION":  # this error means that the topic was never created
            print(f"tidemill: {name} was not deleted: {problem.message}", file=sys.stderr)
