"""
The synchronous client interface that the contract uses; each library has a thin adapter to it.

An error response raises `Refused` with the protocol's error code, whatever the library's own exception is.
A feature that a library lacks raises `Unsupported`, whose message becomes the reason of a skip.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

from tidemill.model import errors

Answer = TypeVar("Answer")
TopicPartition = tuple[str, int]  # topic, partition
Headers = tuple[tuple[str, bytes | None], ...]

WAIT_SECONDS_MAX = 20.0  # limit of one step of a case
SESSION_MS = 6_000  # the shortest session timeout that Kafka's defaults allow


class Refused(Exception):
    """The broker, or the library itself, refused a request."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code


MOVED = frozenset({
    errors.LEADER_NOT_AVAILABLE,
    errors.NOT_LEADER_OR_FOLLOWER,
    errors.COORDINATOR_LOAD_IN_PROGRESS,
    errors.COORDINATOR_NOT_AVAILABLE,
    errors.NOT_COORDINATOR,
    errors.NOT_CONTROLLER,
    errors.OFFSET_NOT_AVAILABLE,
})  # fmt: skip
"""Error codes that mean that a leader, a coordinator or the controller has moved, so the request is to be retried."""


def ask_again(ask: Callable[[], Answer]) -> Answer:
    """
    Repeat `ask` while it is refused with one of the codes in `MOVED`, for at most `WAIT_SECONDS_MAX`.

    For some requests (DescribeGroups, DeleteRecords) the libraries leave the retry after such errors to the
    application.
    """
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        try:
            return ask()
        except Refused as refused:
            if refused.code not in MOVED or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


class Unsupported(Exception):
    """The library lacks a feature; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A record as a share consumer receives it."""

    place: TopicPartition
    offset: int
    value: bytes | None
    delivery_count: int


class Acknowledgement(Enum):
    """How a share consumer acknowledges a record."""

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to be sent."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    state: str
    member_count: int


class Producing(Protocol):
    def send(self, topic: str, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        """Send all records and wait until they are acknowledged; return the partition and the offset of each, in order.
        Raise `Refused` on an error.
        """
        ...

    def close(self) -> None: ...


class Consuming(Protocol):
    def subscribe(self, topics: Sequence[str]) -> None: ...

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    def assignment(self) -> set[TopicPartition]: ...

    def poll(self, seconds: float) -> list[Record]:
        """Return the records that arrive within `seconds`.  Raise `Refused` if the library reports an error."""
        ...

    def seek(self, place: TopicPartition, offset: int) -> None: ...

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    def committed(self, place: TopicPartition) -> int | None: ...

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...

    def bounds(self, place: TopicPartition) -> tuple[int, int]:
        """Return the log start offset and the end offset of a partition."""
        ...

    def close(self) -> None:
        """Close the consumer.  It leaves its group, unless the member is static."""
        ...


class Sharing(Protocol):
    """A consumer of a share group that acknowledges each record."""

    def poll(self, seconds: float) -> list[Delivered]:
        """Return the records that arrive within `seconds`.  Each must be acknowledged before the next call."""
        ...

    def acknowledge(self, decided: Sequence[tuple[Delivered, Acknowledgement]]) -> None:
        """Acknowledge records and wait for the broker's answer.  Raise `Refused` if it refuses."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class Client(Protocol):
    """One client library, connected to one broker or cluster."""

    name: str
    bootstrap: str

    def producer(
        self,
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
        request_bytes_max: int = 1_000_000,
        request_timeout_ms: int = 10_000,
    ) -> Producing: ...

    def consumer(
        self,
        group: str | None = None,
        *,
        reset: str = "earliest",
        instance_id: str | None = None,
        fetch_bytes_max: int = 1_000_000,
    ) -> Consuming: ...

    def share_consumer(self, group: str, topic: str) -> Sharing: ...

    def alter_group_config(self, group: str, key: str, value: str) -> None: ...

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str], *, replicas: int = 1) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def create_partitions(self, name: str, total: int) -> None: ...

    def topics(self) -> dict[str, int]:
        """Return the partition count of every topic, by name."""
        ...

    def topic_configs(self, name: str) -> dict[str, str]: ...

    def broker_configs(self) -> dict[str, str]: ...

    def alter_topic_config(self, name: str, key: str, value: str) -> None: ...

    def delete_records(self, place: TopicPartition, before: int) -> None: ...

    def groups(self) -> set[str]: ...

    def describe_group(self, group: str) -> GroupDescription: ...

    def delete_group(self, group: str) -> None: ...

    def close(self) -> None: ...
