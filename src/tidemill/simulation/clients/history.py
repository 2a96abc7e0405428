"""The history of a simulated cluster, and its checks: the records that clients sent, those that were acknowledged, and
those that clients read.

Every value is unique: it contains its sender, its partition and its number among the sender's values.  A record that
was read can therefore be checked by its value alone.
"""

from dataclasses import dataclass, field
from hashlib import sha1
from typing import NamedTuple

from tidemill.simulation.invariant_violation import InvariantViolation


class Read(NamedTuple):
    offset: int
    epoch: int
    producer_id: int
    value: bytes


@dataclass(slots=True)
class PartitionHistory:
    sent: dict[int, list[bytes]] = field(default_factory=dict)  # by producer id, in the order in which they were sent
    acknowledged: dict[bytes, int] = field(default_factory=dict)  # value → offset
    read: dict[int, Read] = field(default_factory=dict)  # by offset: the record as first read
    delete_asked: int = 0  # a deletion up to this offset was requested: records below the offset may be deleted
    deleted: int = 0  # a deletion up to this offset was acknowledged: records below the offset are deleted


class History:
    def __init__(self) -> None:
        self.partitions: dict[tuple[str, int], PartitionHistory] = {}
        self.acknowledgements = 0
        self.digest = sha1(usedforsecurity=False)
        self._producer_ids: set[int] = set()

    def partition(self, topic: str, number: int) -> PartitionHistory:
        return self.partitions.setdefault((topic, number), PartitionHistory())

    def forget(self, topic: str) -> None:
        """Forget a deleted topic.  A later topic may have the same name, but shares no records with it."""
        for key in [key for key in self.partitions if key[0] == topic]:
            del self.partitions[key]

    def check_producer_id(self, producer_id: int) -> None:
        if producer_id in self._producer_ids:
            raise InvariantViolation(f"producer id {producer_id} was given out twice")
        self._producer_ids.add(producer_id)

    def sent(self, topic: str, number: int, producer_id: int, values: tuple[bytes, ...]) -> None:
        self.partition(topic, number).sent.setdefault(producer_id, []).extend(values)

    def acknowledged(self, topic: str, number: int, base_offset: int, values: tuple[bytes, ...]) -> None:
        partition = self.partition(topic, number)
        for offset, value in enumerate(values, base_offset):
            partition.acknowledged[value] = offset
            self.acknowledgements += 1
            self.digest.update(b"%d " % offset + value)
            found = partition.read.get(offset)
            if found is not None and found.value != value:
                raise InvariantViolation(
                    f"{topic}-{number}: {name_of(value)} is acknowledged at {offset}, where {found} was read"
                )

    def read(self, topic: str, number: int, expected_offset: int, read: Read) -> None:
        """Check a record that a reader at position `expected_offset` has received."""
        where = f"{topic}-{number}"
        if read.offset != expected_offset:
            raise InvariantViolation(f"{where}: a reader at {expected_offset} got {read.offset}: offsets are not dense")
        first = self.partition(topic, number).read.setdefault(read.offset, read)
        if first != read:
            raise InvariantViolation(
                f"{where} at {read.offset}: {_describe(first)} was read, and now {_describe(read)}"
            )
        before = self.partition(topic, number).read.get(read.offset - 1)
        if before is not None and before.epoch > read.epoch:
            raise InvariantViolation(f"{where} at {read.offset}: epoch {read.epoch} behind epoch {before.epoch}")

    def check_all_read(self) -> None:
        for topic, number in self.partitions:
            self.check_read(topic, number)

    def check_read(self, topic: str, number: int) -> None:
        """
        Check a partition that was read to its end: each acknowledged value was read exactly once, in its producer's
        order.
        """
        partition = self.partition(topic, number)
        where = f"{topic}-{number}"
        by_value: dict[bytes, int] = {}
        by_producer: dict[int, list[bytes]] = {}
        for offset in range(len(partition.read)):
            read = partition.read[offset]
            if read.value in by_value:
                raise InvariantViolation(f"{where}: {name_of(read.value)} is at {by_value[read.value]} and at {offset}")
            by_value[read.value] = offset
            by_producer.setdefault(read.producer_id, []).append(read.value)
        for value, offset in partition.acknowledged.items():
            if by_value.get(value) != offset:
                raise InvariantViolation(
                    f"{where}: {name_of(value)} was acknowledged at {offset}, and is at {by_value.get(value)}"
                )
        for producer_id, values in by_producer.items():
            if values != partition.sent.get(producer_id):
                raise InvariantViolation(
                    f"{where}: the records of producer {producer_id} differ from what it sent, in its order"
                )


def name_of(value: bytes) -> str:
    return value.rstrip(b"\0").decode()


def _describe(read: Read) -> str:
    return f"{name_of(read.value)} of epoch {read.epoch}"
