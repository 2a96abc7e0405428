"""A `World` with share groups: topics that the test changes, and requests with defaults."""

from typing import Any

from tests.unit.coordinator.group.group_world import World
from tidemill.coordinator.group.requests import ForgetTopics, ListGroups
from tidemill.coordinator.share_group.log_records import Kind, read_key
from tidemill.coordinator.share_group.requests import DescribeShareGroups, ShareHeartbeat, ShareOpen, SharesClosed
from tidemill.coordinator.share_group.responses import DescribedShareGroup, ShareHeartbeatTaken, ShareOpened
from tidemill.model.topic import TopicId

LATER_ID = TopicId(bytes(15) + b"\x20")


class ShareWorld(World):
    def heartbeating(self, member_id: str, epoch: int, *, group_id: str = "g", **fields: Any) -> ShareHeartbeat:
        wanted = {"client_id": "app", "client_host": "/127.0.0.1"}
        return ShareHeartbeat(
            waiter=self.waiter(), group_id=group_id, member_id=member_id, epoch=epoch, **{**wanted, **fields}
        )

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ShareHeartbeatTaken:
        taken: ShareHeartbeatTaken = self.ask(self.heartbeating(member_id, epoch, **fields))
        return taken

    def joined(self, member_id: str, *topics: str, **fields: Any) -> ShareHeartbeatTaken:
        """Let a member join with epoch 0, subscribed to `topics` or else to flights, and expect success."""
        taken = self.beat(member_id, 0, topics=topics or ("flights",), **fields)
        assert taken.error_code == 0, taken.error_message
        return taken

    def rebalanced(self, *member_ids: str, group_id: str = "g") -> dict[str, dict[str, tuple[int, ...]]]:
        """
        Let the assignment interval pass and every member send two heartbeats.  Return the members' assignments by topic
        name.
        """
        self.wait(self.share_config.assignment_interval_ms)
        for member_id in member_ids * 2:
            epoch = self.member(member_id, group_id).epoch
            assert self.beat(member_id, epoch, group_id=group_id).error_code == 0
        return {member_id: self.assignment(member_id, group_id) for member_id in member_ids}

    def shared(self, group_id: str = "g") -> DescribedShareGroup:
        request = DescribeShareGroups(waiter=self.waiter(), group_ids=(group_id,))
        described: DescribedShareGroup = self.ask(request).groups[0]
        return described

    def member(self, member_id: str, group_id: str = "g") -> Any:
        return next(member for member in self.shared(group_id).members if member.member_id == member_id)

    def assignment(self, member_id: str, group_id: str = "g") -> dict[str, tuple[int, ...]]:
        return {topic.name: topic.partitions for topic in self.member(member_id, group_id).assignment}

    def open(self, topic: str, partition: int = 0, *, group_id: str = "g", may_create: bool = False) -> ShareOpened:
        topic_id = self.topic_ids.get(topic, LATER_ID)
        request = ShareOpen(
            waiter=self.waiter(), group_id=group_id, topic_id=topic_id, partition=partition, may_create=may_create
        )
        opened: ShareOpened = self.ask(request)
        return opened

    def listed(self, **filters: tuple[str, ...]) -> list[tuple[str, str, str, str]]:
        groups = self.ask(ListGroups(waiter=self.waiter(), **filters)).groups
        return [(it.group_id, it.protocol_type, it.state, it.type) for it in groups]

    def close_shares(self) -> list[tuple[str, TopicId]]:
        """Act as the host: report that all leaders have removed the deleted shares.  Return these shares."""
        shares = list(self.groups.shares_to_close())
        for share in shares:
            self.ask(SharesClosed(group_id=share.group_id, topic_id=share.topic_id, incarnation=share.incarnation))
        return [(share.group_id, share.topic_id) for share in shares]

    # Changes to the cluster.

    def create_topic(self, name: str, partitions: int, topic_id: TopicId = LATER_ID) -> None:
        self.topic_ids[name] = topic_id
        self.partition_counts[name] = partitions

    def delete_topic(self, name: str) -> None:
        topic_id = self.topic_ids.pop(name)
        self.ask(ForgetTopics(topic_ids=frozenset({topic_id})))

    def kinds_since(self, length: int) -> list[Kind | None]:
        """Return the kinds of the records that were appended after the log had `length` records."""
        keys = [read_key(record.key) for record in self.log[length:]]
        return [None if key is None else key.kind for key in keys]
