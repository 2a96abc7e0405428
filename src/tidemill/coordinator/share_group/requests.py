"""Requests about share groups to the group coordinator: values that handlers and the host build.

`waiter` is the host's handle for the request, and is returned with the reply.
"""

from dataclasses import dataclass
from typing import Final

from tidemill.coordinator.result import Waiter
from tidemill.model.topic import TopicId

JOIN_EPOCH: Final = 0  # the member epoch with which a member joins, or joins again
LEAVE_EPOCH: Final = -1


@dataclass(slots=True, kw_only=True)
class ShareHeartbeat:
    waiter: Waiter
    group_id: str
    member_id: str  # chosen by the client
    epoch: int
    rack: str | None = None  # None: unchanged
    client_id: str = ""
    client_host: str = ""  # in Kafka's format: "/127.0.0.1"
    topics: tuple[str, ...] | None = None  # names of the subscribed topics; None: unchanged


@dataclass(slots=True, kw_only=True)
class DescribeShareGroups:
    waiter: Waiter
    group_ids: tuple[str, ...]  # only groups that hash to this partition of the internal topic


@dataclass(slots=True, kw_only=True)
class ShareOpen:
    """Asks for the incarnation of a group's share of a partition; the partition's leader has no state for it."""

    waiter: Waiter
    group_id: str
    topic_id: TopicId
    partition: int
    may_create: bool = False  # create a missing group, and add an unknown topic: for consumers without a session


@dataclass(slots=True, kw_only=True)
class ReadShareTopics:
    """Asks which topics a share group reads or has read, and in which incarnation."""

    waiter: Waiter
    group_id: str


@dataclass(slots=True, kw_only=True)
class AlterShareOffsets:
    """Asks whether the start offsets of topics may be set now; a missing group is created.

    The host sets them at the leaders of the partitions, with the incarnations in the reply.
    """

    waiter: Waiter
    group_id: str
    topics: tuple[str, ...]  # names, without duplicates


@dataclass(slots=True, kw_only=True)
class DeleteShareOffsets:
    """Deletes what a group without members has done with the records of topics."""

    waiter: Waiter
    group_id: str
    topics: tuple[str, ...]  # names, without duplicates


@dataclass(slots=True, kw_only=True)
class SharesClosed:
    """
    The leaders of all partitions of a topic have removed the deleted state of a group.  The host sends it and expects
    no reply.
    """

    group_id: str
    topic_id: TopicId
    incarnation: int  # the state was removed up to this incarnation


ShareGroupRequest = (
    ShareHeartbeat
    | DescribeShareGroups
    | ShareOpen
    | ReadShareTopics
    | AlterShareOffsets
    | DeleteShareOffsets
    | SharesClosed
)
