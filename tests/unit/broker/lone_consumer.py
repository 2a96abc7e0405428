"""A consumer of a share group without a session in a `BrokerWorld`, and an operator."""

from typing import Any

from tests.unit.broker.broker_world import BrokerWorld, Client
from tests.unit.broker.share_member import GROUP, Got
from tidemill.batches.batch import spans
from tidemill.batches.records import read_records
from tidemill.model.topic import TopicId
from tidemill.peer import share_describe, share_receive, share_resolve
from tidemill.peer.share_resolve import BY_POLICY, NOT_LISTED

OPERATOR = ""


class ResolvesShares:
    """Sends requests for partition 0 of the topic `jobs` to one broker.  An operator has no name."""

    def __init__(self, world: BrokerWorld, name: str = OPERATOR, *, group: str = GROUP) -> None:
        self.world = world
        self.name = name
        self.group = group
        self.client = Client(world)
        self.topic_id: TopicId = world.partition("jobs").shard.log.descriptor.topic_id

    def receive_request(self, **fields: Any) -> share_receive.Request:
        given: dict[str, Any] = {
            "group_id": self.group,
            "topic_id": self.topic_id,
            "partition": 0,
            "member_id": self.name,
            "max_records": 500,
            "max_bytes": 1 << 20,
            "max_wait_ms": 500,
        }
        return share_receive.Request(**{**given, **fields})

    def receive(self, **fields: Any) -> list[Got]:
        return received(self.client.ask(self.receive_request(**fields)))

    def resolve(
        self,
        *batches: tuple[int, int, int],
        held_as: int = NOT_LISTED,
        delay_ms: int = BY_POLICY,
        **fields: Any,
    ) -> share_resolve.Response:
        """Resolve (first offset, last offset, type)."""
        response: share_resolve.Response = self.client.ask(
            self.resolve_request(*batches, held_as=held_as, delay_ms=delay_ms, **fields)
        )
        return response

    def resolve_request(self, *batches: tuple[int, int, int], **fields: Any) -> share_resolve.Request:
        listed = [
            share_resolve.Request.Batch(first_offset=first, last_offset=last, acknowledge_types=[kind])
            for first, last, kind in batches
        ]
        given: dict[str, Any] = {
            "group_id": self.group,
            "topic_id": self.topic_id,
            "partition": 0,
            "member_id": self.name,
            "batches": listed,
        }
        return share_resolve.Request(**{**given, **fields})

    def counts(self, *batches: tuple[int, int, int], **fields: Any) -> tuple[int, int, int]:
        """Resolve, and return how many were resolved, were finished, and are held."""
        response = self.resolve(*batches, **fields)
        assert not response.error_code, response.error_message
        return response.resolved, response.finished, response.held

    def describe(self, partition: int = 0) -> share_describe.Response.Share:
        asked = share_describe.Request.Partition(topic_id=self.topic_id, partition=partition)
        response = self.client.ask(share_describe.Request(group_id=self.group, partitions=[asked]))
        (described,) = response.shares
        assert isinstance(described, share_describe.Response.Share)
        return described


def received(response: share_receive.Response) -> list[Got]:
    """Return the acquired records of a response.  Every acquired offset must have its record."""
    assert not response.error_code, response.error_message
    data = memoryview(bytes(response.records or b""))
    records = {
        record.offset: record
        for span in spans(data)
        for record in read_records(data[span.position : span.position + span.size])
    }
    return [
        Got(offset, records[offset].value, acquired.delivery_count)
        for acquired in response.acquired
        for offset in range(acquired.first_offset, acquired.last_offset + 1)
    ]
