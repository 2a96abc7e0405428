"""Requests that a client sends on one connection without waiting for responses take effect in order."""

import uuid
from collections.abc import Iterator

import pytest

from tests.integration.clients.conftest import RunningBroker
from tests.integration.hostile.attacked_broker import (
    Client,
    fetch_request,
    frame_of,
    list_offsets_request,
    produce_request,
)
from tidemill.wire.messages import create_topics, delete_records

ROUNDS = 50
EARLIEST, LATEST = -2, -1


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[Client]:
    host, _, port = broker.bootstrap.rpartition(":")
    with Client((host, int(port))) as connected:
        yield connected


def topic_request() -> create_topics.Request:
    topic = create_topics.Request.Topic(
        name=f"order-{uuid.uuid4().hex[:12]}", num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    return create_topics.Request(topics=[topic], timeout_ms=5_000)


def delete_request(topic: str, offset: int) -> delete_records.Request:
    asked = delete_records.Request.Topic.Partition(partition_index=0, offset=offset)
    return delete_records.Request(
        topics=[delete_records.Request.Topic(name=topic, partitions=[asked])], timeout_ms=5_000
    )


def test_list_offsets_sees_the_delete_records_before_it(client: Client) -> None:
    """
    A ListOffsets request sent directly after DeleteRecords always returns the new log start offset.
    """
    creation = topic_request()
    topic = creation.topics[0].name
    client.ask(creation, 5)
    client.ask(produce_request(topic, *[b"record"] * ROUNDS), 9)

    log_starts = []
    for offset in range(1, ROUNDS + 1):
        deletion, listing = delete_request(topic, offset), list_offsets_request(topic, EARLIEST)
        client.socket.sendall(frame_of(deletion, 1) + frame_of(listing, 5))
        deleted = client.answer(deletion, 1).topics[0].partitions[0]
        listed = client.answer(listing, 5).topics[0].partitions[0]
        log_starts.append((deleted.error_code, deleted.low_watermark, listed.offset))

    assert [(0, offset, offset) for offset in range(1, ROUNDS + 1)] == log_starts


def test_requests_of_many_kinds_take_effect_in_order(client: Client) -> None:
    """
    A client can create, write, read and list a topic with requests that it sends without waiting for responses.
    """
    for _ in range(ROUNDS):
        creation = topic_request()
        topic = creation.topics[0].name
        values = [b"first", b"second", b"third"]
        productions = [produce_request(topic, value) for value in values]
        fetching, listing = fetch_request(topic, wait_ms=1_000), list_offsets_request(topic, LATEST)

        client.send(creation, 5)
        for production in productions:
            client.send(production, 9)
        client.send(fetching, 11)
        client.send(produce_request(topic, b"fourth", acks=0), 9)
        client.send(listing, 5)

        assert 0 == client.answer(creation, 5).topics[0].error_code
        offsets = [client.answer(it, 9).responses[0].partition_responses[0].base_offset for it in productions]
        fetched = client.answer(fetching, 11).responses[0].partitions[0]
        assert [0, 1, 2] == offsets
        assert [True, True, True, False] == [it in bytes(fetched.records) for it in (*values, b"fourth")]
        assert 4 == client.answer(listing, 5).topics[0].partitions[0].offset
