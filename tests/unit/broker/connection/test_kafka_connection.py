"""
A connection handles requests in order, stays within its memory bounds, and resumes reading when memory becomes free.
"""

from typing import Any

import pytest

from tests.unit.broker.broker_world import LISTENER, BrokerWorld, Client
from tidemill.batches.builder import build_batch
from tidemill.broker.connection.dispatch import HANDLERS
from tidemill.broker.connection.kafka_connection import TURN_REQUESTS_MAX
from tidemill.metadata.metadata_records import Endpoint
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.messages import (
    create_topics,
    delete_records,
    describe_cluster,
    fetch,
    list_offsets,
    metadata,
    produce,
)
from tidemill.wire.schema import Message

KIB = 1 << 10


def waiting_fetch(topic: str = "flights", *, wait_ms: int = 60_000, offset: int = 0) -> fetch.Request:
    asked = fetch.Request.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return fetch.Request(
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_epoch=-1,
        topics=[fetch.Request.Topic(topic=topic, partitions=[asked])],
        forgotten_topics_data=(),
    )


def produce_of(size: int, acks: int = -1, topic: str = "flights") -> produce.Request:
    batch = build_batch([(None, bytes(size), (), 1_700_000_000_000)])
    data = produce.Request.Topic.Partition(index=0, records=memoryview(batch))
    asked = produce.Request.Topic(name=topic, partition_data=[data])
    return produce.Request(transactional_id=None, acks=acks, timeout_ms=1_000, topic_data=[asked])


def offsets_request(timestamp: int, topic: str = "flights") -> list_offsets.Request:
    asked = list_offsets.Request.Topic.Partition(partition_index=0, timestamp=timestamp)
    return list_offsets.Request(replica_id=-1, topics=[list_offsets.Request.Topic(name=topic, partitions=[asked])])


def listed_offset(client: Client) -> int:
    answered = client.answer(list_offsets.API, 5)
    assert answered is not None, "ListOffsets was not answered"
    (partition,) = answered.topics[0].partitions
    assert errors.NONE == partition.error_code
    offset: int = partition.offset
    return offset


def brokers() -> Message:
    return describe_cluster.Request(include_cluster_authorized_operations=False)


def world_with(**static: str) -> BrokerWorld:
    world = BrokerWorld({key.replace("_", "."): value for key, value in static.items()})
    world.create("flights")
    return world


def answers(client: Client) -> int:
    """Return the number of responses that have arrived."""
    sent, count = bytes(client.writer.sent), 0
    while sent:
        sent = sent[4 + int.from_bytes(sent[:4]) :]
        count += 1
    return count


def test_a_response_waits_for_those_of_earlier_requests() -> None:
    """
    Clients expect responses in the order in which they sent the requests.
    """
    world = world_with()
    client = Client(world)
    client.send(waiting_fetch(), 11)
    client.send(brokers(), 1)
    world.stabilize()
    before = answers(client)

    world.produce("flights", b"now")

    assert (0, 2) == (before, answers(client))
    assert 1 == int.from_bytes(client.writer.sent[4:8])


def test_a_produce_request_with_acks_0_has_no_response() -> None:
    """
    A Produce request with acks=0 gets no response, and later requests are answered as if it had not been sent.
    """
    world = world_with()
    client = Client(world)

    client.send(produce_of(10, acks=0), 9)
    client.send(brokers(), 1)
    world.stabilize()

    assert (1, 1) == (answers(client), world.partition("flights").high_watermark)


def test_a_produce_request_with_acks_0_counts_until_its_batch_is_in_the_journal() -> None:
    """
    Back-pressure applies to every Produce request, because its batch occupies memory until it is in the journal.
    """
    world = BrokerWorld()
    world.create("flights")
    client = Client(world)

    for _ in range(4):
        client.send(produce_of(100_000, acks=0), 9)
    queued = world.broker.memory.working_bytes
    world.stabilize()

    assert (True, 0) == (queued > 400_000, world.broker.memory.working_bytes)
    assert 4 == world.partition("flights").high_watermark


def test_an_error_with_acks_0_closes_the_connection() -> None:
    """
    An error with acks=0 closes the connection, which makes the client look for the leader again.  Requests after the
    failed one are not executed.
    """
    world = world_with()
    client = Client(world)

    client.send(produce_of(10, acks=0, topic="nowhere"), 9)
    client.send(produce_of(10), 9)
    world.stabilize()

    assert (False, 0) == (client.writer.is_open, world.partition("flights").high_watermark)


def failing(request: object, context: object) -> Any:
    raise ZeroDivisionError("a mistake")


def test_a_handler_that_raises_is_answered_with_an_error_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If a handler raises an exception, the client gets an error code, the event log contains the traceback, and the
    connection stays open.
    """
    world = world_with()
    monkeypatch.setitem(HANDLERS, describe_cluster.API.key, failing)

    answered = world.ask(brokers(), 1)

    assert errors.UNKNOWN_SERVER_ERROR == answered.error_code
    assert (True, 1) == (world.client.writer.is_open, world.broker.metrics.request_failures)
    assert "ZeroDivisionError" in world.events[-1] and "in failing" in world.events[-1]


def test_a_handler_that_raises_closes_the_connection_if_the_response_has_no_error_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    A connection is closed if a handler raises and its response has no field for an error code; otherwise the client
    would wait forever.
    """
    world = world_with()
    monkeypatch.setitem(HANDLERS, metadata.API.key, failing)

    world.client.send(metadata.Request(topics=None), 5)
    world.stabilize()

    assert (False, 1) == (world.client.writer.is_open, world.broker.metrics.request_failures)


def test_a_pending_response_that_fails_is_answered_with_an_error_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If a pending response cannot be encoded, its client gets an error code.  The code that completes the response, for
    example the commit callback of another request, is not affected.
    """
    world = world_with()
    pending: Pending[Message] = Pending()
    monkeypatch.setitem(HANDLERS, describe_cluster.API.key, lambda request, context: pending)
    client = Client(world)
    client.send(brokers(), 1)

    pending.complete(metadata.Response(brokers=(), topics=()))  # of another API, so it cannot be encoded
    world.stabilize()

    assert (1, True) == (answers(client), client.writer.is_open)
    assert 1 == world.broker.metrics.request_failures


EARLIEST, LATEST = -2, -1


def test_a_request_sees_what_the_request_before_it_did() -> None:
    """
    A ListOffsets request that directly follows DeleteRecords returns the new log start, as in Kafka.
    """
    world = world_with()
    world.produce("flights", b"a", b"b", b"c")
    client = Client(world)
    asked = delete_records.Request.Topic.Partition(partition_index=0, offset=2)
    topic = delete_records.Request.Topic(name="flights", partitions=[asked])

    deleted = client.send(delete_records.Request(topics=[topic], timeout_ms=1_000))
    client.send(offsets_request(EARLIEST), 5)
    world.stabilize()

    (partition,) = client.answer(*deleted).topics[0].partitions
    assert (errors.NONE, 2, 2) == (partition.error_code, partition.low_watermark, listed_offset(client))


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_a_request_behind_produce_requests_waits_for_all_of_them(acks: int) -> None:
    """
    ListOffsets waits for the Produce requests before it on the same connection, and returns an end offset that includes
    their records.
    """
    world = world_with()
    client = Client(world)

    for _ in range(3):
        client.send(produce_of(10, acks=acks), 9)
    client.send(offsets_request(LATEST), 5)
    world.stabilize()
    if acks:
        produced = [client.answer(produce.API, 9) for _ in range(3)]
        assert all(it.responses[0].partition_responses[0].error_code == errors.NONE for it in produced)

    assert 3 == listed_offset(client)


def test_produce_requests_are_pipelined() -> None:
    """
    A Produce request does not wait for earlier Produce requests: a single journal write contains all their batches.
    """
    world = world_with()
    world.writes = False
    client = Client(world)

    for _ in range(3):
        client.send(produce_of(10), 9)
    world.stabilize()

    assert (3, 0, True) == (world.partition("flights").log.end_offset, answers(client), client.writer.is_reading)
    world.writes = True
    world.stabilize()
    assert 3 == answers(client)


def test_a_produce_request_waits_for_another_kind_of_request_before_it() -> None:
    """
    A Produce request that directly follows CreateTopics finds the new topic.
    """
    world = BrokerWorld()
    client = Client(world)
    wanted = create_topics.Request.Topic(name="new", num_partitions=1, replication_factor=1, assignments=(), configs=())

    client.send(create_topics.Request(topics=[wanted], timeout_ms=1_000), 5)
    client.send(produce_of(10, topic="new"), 9)
    world.stabilize()

    assert (2, 1) == (answers(client), world.partition("new").high_watermark)


def test_a_connection_whose_next_request_must_wait_is_not_read_from() -> None:
    """
    Requests that follow a waiting one stay in the socket, except those that were read together with it, and are handled
    later.
    """
    world = world_with()
    client = Client(world)
    client.send(waiting_fetch(), 11)
    world.stabilize()
    states = [client.writer.is_reading]
    client.send(waiting_fetch(), 11)
    world.stabilize()
    states.append(client.writer.is_reading)

    world.pass_time(60_001)
    states.append(client.writer.is_reading)
    world.pass_time(60_001)

    assert ([True, False, True], 2) == (states, answers(client))


def test_a_connection_is_not_read_from_before_the_frame_that_must_wait_is_complete() -> None:
    """
    If a large request that follows a waiting one were read, it would fill the memory that all connections share.
    """
    world = world_with()
    client = Client(world)
    client.send(waiting_fetch(), 11)
    part = (100 * KIB).to_bytes(4) + bytes(2)
    client.connection.get_buffer(-1)[: len(part)] = part

    client.connection.received(len(part))

    assert not client.writer.is_reading


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    """
    A client that does not read its responses is not read from; once it reads them, all its requests are answered.
    """
    world = world_with()
    client = Client(world)
    client.connection.pause_writing()
    for _ in range(3):
        client.send(brokers(), 1)
    world.stabilize()
    before = (client.writer.is_reading, answers(client))

    client.connection.resume_writing()
    world.stabilize()

    assert ((False, 0), (True, 3)) == (before, (client.writer.is_reading, answers(client)))


def test_requests_of_one_write_are_answered_in_several_turns() -> None:
    """
    Many pipelined requests of one client are handled in several turns of the event loop, so that they do not block it.
    """
    world = world_with()
    client = Client(world)
    frame = b"".join(bytes(part) for part in describe_cluster.API.encode_request(1, brokers(), 1, None))
    many = frame * (2 * TURN_REQUESTS_MAX + 10)
    at = 0
    while at < len(many):
        buffer = client.connection.get_buffer(-1)
        count = min(len(buffer), len(many) - at)
        buffer[:count] = many[at : at + count]
        client.connection.received(count)
        at += count
    first = answers(client)

    world.stabilize()

    assert (TURN_REQUESTS_MAX, 2 * TURN_REQUESTS_MAX + 10) == (first, answers(client))
    assert client.writer.is_reading


def test_all_connections_wait_while_request_memory_is_exhausted() -> None:
    """
    No connection is read from while the memory is exhausted, not even one without open requests.  Each of them is woken
    when there is room.
    """
    world = world_with(queued_max_request_bytes="10000")
    busy, other = Client(world), Client(world)
    busy.send(produce_of(12 * KIB), 9)
    other.send(brokers(), 1)
    before = (busy.writer.is_reading, other.writer.is_reading, answers(other))

    world.stabilize()

    assert (False, False, 0) == before
    assert (True, True, 1, 1) == (busy.writer.is_reading, other.writer.is_reading, answers(other), answers(busy))


def test_the_request_bytes_of_a_lost_connection_are_released() -> None:
    """
    The append requested by the lost connection still completes, and waiting connections are woken.
    """
    world = world_with(queued_max_request_bytes="10000")
    busy, other = Client(world), Client(world)
    busy.send(produce_of(12 * KIB), 9)
    other.send(brokers(), 1)

    busy.connection.lost(None)
    world.stabilize()

    assert (0, 1, 1) == (
        world.broker.memory.request_bytes,
        answers(other),
        world.partition("flights").high_watermark,
    )


def test_one_of_several_large_frames_always_completes() -> None:
    """
    When incomplete frames fill the memory, the frame that began first is received, then the next one.
    """
    world = world_with(queued_max_request_bytes="300000")
    frames = [
        b"".join(bytes(part) for part in produce.API.encode_request(9, produce_of(200 * KIB), 1, None))
        for _ in range(3)
    ]
    clients = [Client(world) for _ in frames]
    sent = [0] * 3
    for _ in range(10_000):
        for number, client in enumerate(clients):
            if client.writer.is_reading and sent[number] < len(frames[number]):
                part = frames[number][sent[number] :][: 8 * KIB]
                buffer = client.connection.get_buffer(-1)
                count = min(len(part), len(buffer))
                buffer[:count] = part[:count]
                client.connection.received(count)
                sent[number] += count
        world.step()
    world.stabilize()

    assert [1, 1, 1] == [answers(client) for client in clients]
    assert 0 == world.broker.memory.request_bytes


def test_a_connection_with_a_stuck_large_frame_is_closed() -> None:
    """
    At the memory bound, only the oldest incomplete frame is received, so the connection is closed if that frame does
    not make progress.
    """
    world = world_with(queued_max_request_bytes="20000")
    slow = Client(world)
    for part in ((1 << 20).to_bytes(4) + bytes(1_000), *[bytes(4_000)] * 8):
        buffer = slow.connection.get_buffer(-1)
        count = min(len(part), len(buffer))
        buffer[:count] = part[:count]
        slow.connection.received(count)

    world.pass_time(10_001)

    assert (False, 0) == (slow.writer.is_open, world.broker.memory.request_bytes)


def test_a_lost_connection_cancels_its_waiting_fetch() -> None:
    """
    The waiting fetch of a lost connection leaves neither a timer nor a watcher behind, however long it would have
    waited.
    """
    world = world_with()
    client = Client(world)
    client.send(waiting_fetch(wait_ms=86_400_000), 11)
    world.stabilize()
    watched = len(world.partition("flights").watchers)
    of_the_fetch = world.timers[-1]

    client.connection.lost(None)

    assert (1, 0) == (watched, len(world.partition("flights").watchers))
    assert of_the_fetch.is_cancelled


def test_a_response_to_a_lost_connection_is_dropped() -> None:
    """
    If the append commits after the client has disconnected, the response is dropped.
    """
    world = world_with()
    client = Client(world)
    client.send(produce_of(10), 9)

    client.connection.lost(ConnectionResetError())
    world.stabilize()

    assert (b"", 1) == (bytes(client.writer.sent), world.partition("flights").high_watermark)


def test_requests_behind_a_waiting_request_are_bounded() -> None:
    """
    Requests and responses must not accumulate while a fetch waits for a day.
    """
    world = world_with()
    client = Client(world)
    client.send(waiting_fetch(wait_ms=86_400_000), 11)
    for _ in range(100):
        client.send(brokers(), 1)
    world.stabilize()
    before = (client.writer.is_reading, world.broker.metrics.apis[describe_cluster.API.key].requests)

    world.produce("flights", b"now")

    assert ((False, 0), (True, 101)) == (before, (client.writer.is_reading, answers(client)))


def test_an_unexpected_error_in_a_reader_thread_closes_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    An unexpected error in a reader thread closes the connection of the request; the broker continues to run.
    """
    world = world_with()
    world.produce("flights", b"x")
    monkeypatch.setattr("tidemill.shard.lookup.first_at_or_after", failing)
    asked = list_offsets.Request.Topic.Partition(partition_index=0, timestamp=1_000)

    topic = list_offsets.Request.Topic(name="flights", partitions=[asked])
    world.client.send(list_offsets.Request(replica_id=-1, topics=[topic]), 5)
    world.stabilize()

    assert (False, 1) == (world.client.writer.is_open, world.broker.metrics.request_failures)


def test_a_stopping_broker_answers_open_requests_and_begins_no_others() -> None:
    """
    A stopping broker accepts no more requests, because busy producers could otherwise delay a clean stop forever.
    """
    world = world_with()
    client = Client(world)
    client.send(produce_of(100), version=12)

    client.connection.stop_receiving()
    client.send(produce_of(100), version=12)
    world.stabilize()

    assert (1, 1, False) == (answers(client), world.partition("flights").high_watermark, client.writer.is_reading)


@pytest.mark.parametrize(
    ("first", "arrived", "fix"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "a TLS handshake", "security.protocol=PLAINTEXT"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "an HTTP request", "port 9080"),
    ],
    ids=["TLS", "HTTP"],
)
def test_another_protocol_is_logged_once_and_closed(first: bytes, arrived: str, fix: str) -> None:
    """
    A connection that speaks another protocol is closed, and counted as a protocol error.  For several of them, one
    event reports what arrived, from which client and at which port, and which setting to change.
    """
    world = BrokerWorld(
        endpoints=(Endpoint(LISTENER, "h", 9092, "PLAINTEXT"), Endpoint("HTTP", "h", 9080, "PLAINTEXT"))
    )
    clients = [Client(world) for _ in range(3)]
    for client in clients:
        client.connection.get_buffer(len(first))[: len(first)] = first
        client.connection.received(len(first))

    assert [False] * 3 == [client.writer.is_open for client in clients]
    assert 3 == world.broker.metrics.protocol_errors
    (line,) = [line for line in world.events if "warning" in line]
    for part in ("not a Kafka client", "client=127.0.0.1", arrived, "port=9092", fix):
        assert part in line
