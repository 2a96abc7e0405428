"""
A consumer that is a member of a group in a `BrokerWorld`: one connection, and the requests of the classic protocol.
"""

from typing import Any

from tests.unit.broker.broker_world import BrokerWorld, Client
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.wire.messages import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from tidemill.wire.schema import Message

STATIC = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
FLIGHTS = b"\x00\x03\x00\x00\x00\x01\x00\x07flights\xff\xff\xff\xff"  # a subscription to one topic
SESSION_MS = 10_000


class GroupMember:
    def __init__(self, world: BrokerWorld, group_id: str = "g", *, instance_id: str | None = None) -> None:
        self.world = world
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.client = Client(world)

    def joining(self, **fields: Any) -> join_group.Request:
        wanted = {
            "group_id": self.group_id,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": 60_000,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": [join_group.Request.Protocol(name="range", metadata=FLIGHTS)],
        }
        return join_group.Request(**{**wanted, **fields})

    def later(self, request: Message, version: int | None = None) -> Any:
        """
        Send a request and let 1 ms pass, so that due timers fire.  Return the response, or None while the request is
        parked.
        """
        api, version = self.client.send(request, version)
        self.world.stabilize()
        self.world.pass_time(1)
        return self.client.answer(api, version)

    def join(self, version: int | None = None) -> Any:
        """Send JoinGroup.  If the response only assigns a member id, send it again with that id."""
        joined = self.later(self.joining(), version)
        if joined is not None and joined.error_code == errors.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            joined = self.later(self.joining(), version)
        if joined is not None:
            self.took(joined)
        return joined

    def took(self, joined: Any) -> None:
        self.member_id, self.generation = joined.member_id, joined.generation_id

    def sync(self, **assignments: bytes) -> Any:
        """Send SyncGroup.  The group's leader passes assignments, in which `own` stands for this member's id."""
        named = [
            sync_group.Request.Assignment(
                member_id=self.member_id if member_id == "own" else member_id, assignment=assignment
            )
            for member_id, assignment in assignments.items()
        ]
        request = sync_group.Request(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=named,
        )
        return self.later(request)

    def stabilize(self) -> "GroupMember":
        """Join and sync, so that this member is the only one in a stable group, and return it."""
        self.join()
        assert self.sync(own=b"all of it").error_code == errors.NONE
        return self

    def heartbeat(self) -> int:
        request = heartbeat.Request(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        code: int = self.client.ask(request).error_code
        return code

    def leave(self) -> int:
        request = leave_group.Request(
            group_id=self.group_id, members=[leave_group.Request.Member(member_id=self.member_id)]
        )
        code: int = self.client.ask(request).error_code
        return code


def committing(
    topic: str, *offsets: int, group_id: str = "g", member: GroupMember | None = None, topic_id: TopicId = NO_TOPIC_ID
) -> offset_commit.Request:
    """Return a request that commits one offset per partition, starting with partition 0."""
    partitions = [
        offset_commit.Request.Topic.Partition(
            partition_index=number, committed_offset=offset, committed_leader_epoch=1, committed_metadata=f"at {offset}"
        )
        for number, offset in enumerate(offsets)
    ]
    return offset_commit.Request(
        group_id=group_id,
        generation_id_or_member_epoch=member.generation if member else -1,
        member_id=member.member_id if member else "",
        topics=[offset_commit.Request.Topic(name=topic, topic_id=topic_id, partitions=partitions)],
    )


def commit(world: BrokerWorld, topic: str, *offsets: int, **fields: Any) -> list[int]:
    """Commit offsets of a topic by its name, and return the error code of each partition."""
    answered = world.ask(committing(topic, *offsets, **fields), version=9)
    return [partition.error_code for partition in answered.topics[0].partitions]


def fetched(world: BrokerWorld, group_id: str = "g") -> dict[tuple[str, int], int]:
    """Return all committed offsets of the group by topic name and partition."""
    request = offset_fetch.Request(groups=[offset_fetch.Request.Group(group_id=group_id, topics=None)])
    (group,) = world.ask(request, version=9).groups
    assert group.error_code == errors.NONE, errors.name(group.error_code)
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in group.topics
        for partition in topic.partitions
    }
