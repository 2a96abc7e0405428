"""A member of a share group in a `BrokerWorld`: one connection, and the requests of KIP-932."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.unit.broker.broker_world import BrokerWorld, Client
from tidemill.batches.batch import spans
from tidemill.batches.records import read_records
from tidemill.model import errors
from tidemill.model.topic import TopicId
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.wire.messages import incremental_alter_configs, share_acknowledge, share_fetch, share_group_heartbeat

STATIC = {"offsets.topic.num.partitions": "2", "group.share.min.record.lock.duration.ms": "1000"}
GROUP = "g"
SET = 0
GROUP_TYPE = 32
WAIT_MS = 500


def configure_group(world: BrokerWorld, group: str = GROUP, **settings: str) -> None:
    """Set keys of a group, with underscores for dots, such as `share_auto_offset_reset="earliest"`."""
    changes = [
        incremental_alter_configs.Request.Resource.Config(
            name=name.replace("_", "."), config_operation=SET, value=value
        )
        for name, value in settings.items()
    ]
    resource = incremental_alter_configs.Request.Resource(
        resource_type=GROUP_TYPE, resource_name=group, configs=changes
    )
    (answer,) = world.ask(incremental_alter_configs.Request(resources=[resource], validate_only=False)).responses
    assert not answer.error_code, answer.error_message


class Got(NamedTuple):
    """A record as a consumer sees it."""

    offset: int
    value: bytes | None
    delivery_count: int


class ShareMember:
    """A member that fetches from one broker; its coordinator may be another one."""

    def __init__(
        self, world: BrokerWorld, name: str = "m", *, group: str = GROUP, coordinator: BrokerWorld | None = None
    ) -> None:
        self.world = world
        self.group = group
        self.name = name
        self.client = Client(world)
        self._coordinator = Client(coordinator or world)
        self.member_epoch = 0
        self.session_epoch = 0
        self.assigned: dict[TopicId, Sequence[int]] = {}

    def join(self, *topics: str) -> Any:
        """Send heartbeats until partitions are assigned."""
        answer = self.heartbeat(topics)
        while not answer.error_code and not self.assigned:
            self.world.pass_time(1_000)
            answer = self.heartbeat(None)
        return answer

    def heartbeat(self, topics: Iterable[str] | None = None) -> Any:
        answer = self._coordinator.ask(
            share_group_heartbeat.Request(
                group_id=self.group,
                member_id=self.name,
                member_epoch=self.member_epoch,
                subscribed_topic_names=None if topics is None else list(topics),
            )
        )
        if not answer.error_code:
            self.member_epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {it.topic_id: it.partitions for it in answer.assignment.topic_partitions}
        return answer

    # ShareFetch.

    def fetch_request(
        self, acknowledged: Mapping[int, Sequence[tuple[int, int, int]]] | None = None, **fields: Any
    ) -> share_fetch.Request:
        """
        Return the next request of the session.  `acknowledged` holds (first offset, last offset, type) by partition.
        """
        partition = share_fetch.Request.Topic.Partition
        topics = [
            share_fetch.Request.Topic(
                topic_id=topic_id,
                partitions=[
                    partition(
                        partition_index=number,
                        acknowledgement_batches=[
                            partition.AcknowledgementBatch(
                                first_offset=first, last_offset=last, acknowledge_types=[kind]
                            )
                            for first, last, kind in (acknowledged or {}).get(number, ())
                        ],
                    )
                    for number in numbers
                    if not self.session_epoch or number in (acknowledged or {})
                ],
            )
            for topic_id, numbers in self.assigned.items()
        ]
        given = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.session_epoch,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_records": 500,
            "batch_size": 500,
            "topics": topics,
            "forgotten_topics_data": (),
        }
        return share_fetch.Request(**{**given, **fields})

    def fetch(self, acknowledged: Mapping[int, Sequence[tuple[int, int, int]]] | None = None, **fields: Any) -> Any:
        answer = self.client.ask(self.fetch_request(acknowledged, **fields))
        if not answer.error_code:
            self.session_epoch += 1
        return answer

    def receive(self, **fields: Any) -> list[Got]:
        """Fetch, and return the records of all partitions.  The first fetch also opens the shares."""
        return acquired_records(self.fetch(**fields))

    # ShareAcknowledge.

    def acknowledge(self, first: int, last: int, kind: int = Acknowledgement.ACCEPT, *, number: int = 0) -> int:
        """Acknowledge records of one partition and return its error code."""
        partition = share_acknowledge.Request.Topic.Partition
        batch = partition.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
        (topic_id,) = self.assigned
        answer = self.client.ask(
            share_acknowledge.Request(
                group_id=self.group,
                member_id=self.name,
                share_session_epoch=self.session_epoch,
                is_renew_ack=kind == Acknowledgement.RENEW,
                topics=[
                    share_acknowledge.Request.Topic(
                        topic_id=topic_id,
                        partitions=[partition(partition_index=number, acknowledgement_batches=[batch])],
                    )
                ],
            )
        )
        if answer.error_code:
            return int(answer.error_code)
        self.session_epoch += 1
        return int(answer.responses[0].partitions[0].error_code)

    def at(self, world: BrokerWorld) -> "ShareMember":
        """Return the same member as it fetches from another broker, without a session there."""
        other = ShareMember(world, self.name, group=self.group)
        other.assigned = self.assigned
        return other

    def disconnect(self) -> None:
        self.client.connection.lost(None)
        self.world.stabilize()


def acquired_records(answer: Any) -> list[Got]:
    """Return the acquired records in a ShareFetch response.  Every acquired offset must have its record."""
    assert not answer.error_code, (answer.error_code, answer.error_message)
    found: list[Got] = []
    for topic in answer.responses:
        for partition in topic.partitions:
            assert partition.error_code == errors.NONE, partition.error_message
            data = memoryview(bytes(partition.records or b""))
            records = {
                record.offset: record
                for span in spans(data)
                for record in read_records(data[span.position : span.position + span.size])
            }
            for acquired in partition.acquired_records:
                found += [
                    Got(offset, records[offset].value, acquired.delivery_count)
                    for offset in range(acquired.first_offset, acquired.last_offset + 1)
                ]
    return found
