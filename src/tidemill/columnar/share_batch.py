"""A micro-batch of a query with mode=share: the names under which it holds records, as Spark's checkpoint keeps them.

The query acquires records in the name of *members*, each of which acquires once and from one partition.  So a
member's records never grow: a batch that is read again has the same records or fewer, and never one that an earlier
reader of the batch has not seen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidemill.model.partition import TopicPartition

JsonBatch = dict[str, Any]

_MODE: Final = "share"


class Holder(NamedTuple):
    """A member that may hold records of one partition."""

    partition: TopicPartition
    member: str


class Progress(NamedTuple):
    """What a group can acquire from a partition."""

    is_open: bool  # whether the partition has a share of the group
    available: int
    end: int  # the high watermark


class Acquired(NamedTuple):
    """What a member has acquired, or still holds: (first offset, end offset, delivery count), ascending."""

    ranges: Sequence[tuple[int, int, int]]
    lock_ms: int
    withheld_ms: int = 0  # how long the leader withholds available records; 0: it does not


@dataclass(frozen=True, slots=True)
class ShareBatch:
    """The identity of a micro-batch."""

    run: str  # identifies the run of the query that planned the batch
    number: int  # counts the batches of the run
    serials: tuple[tuple[TopicPartition, tuple[int, ...]], ...]  # the numbers of the members that hold records

    def holders(self) -> Iterator[Holder]:
        for partition, serials in self.serials:
            for serial in serials:
                yield Holder(partition, member_name(self.run, serial))


def member_name(run: str, serial: int) -> str:
    return f"spark.{run}.{serial}"


def start_json(group: str) -> JsonBatch:
    """Return the offset at which a new query starts."""
    return {"mode": _MODE, "group": group}


def to_json(batch: ShareBatch, group: str) -> JsonBatch:
    """Return the offset that is the end of this batch."""
    members: dict[str, dict[str, list[int]]] = {}
    for (topic, number), serials in batch.serials:
        members.setdefault(topic, {})[str(number)] = list(serials)
    return {**start_json(group), "run": batch.run, "batch": batch.number, "members": members}


def from_json(offset: JsonBatch, group: str) -> ShareBatch | None:
    """
    Return the batch that ends at this offset; None for the start of a query.

    Raise ValueError for an offset of a query without mode=share, or of another group.
    """
    if offset.get("mode") != _MODE:
        raise ValueError(
            "the checkpoint is of a query without mode=share: choose another checkpointLocation for this query"
        )
    if offset["group"] != group:
        raise ValueError(
            f"group={group} contradicts the checkpoint, whose group is {offset['group']}: choose another "
            "checkpointLocation, or that group"
        )
    if "run" not in offset:
        return None
    serials = tuple(
        (TopicPartition(topic, int(number)), tuple(some))
        for topic, by_number in offset["members"].items()
        for number, some in by_number.items()
    )
    return ShareBatch(offset["run"], offset["batch"], serials)
