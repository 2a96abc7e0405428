"""Clients that try to exhaust the broker's memory."""

import struct
import threading
import time

import zstandard

from tests.integration.hostile.attacked_broker import (
    MIB,
    AttackedBroker,
    fetch_request,
    frame_of,
    list_offsets_request,
    metadata_request,
    produce_request,
    raw_produce_request,
)
from tidemill.batches.batch import HEADER_BYTES
from tidemill.batches.builder import build_batch
from tidemill.batches.checksum import crc32c
from tidemill.model import errors
from tidemill.wire.messages import describe_configs, fetch

GROWN_MAX = 48 * MIB
ANNOUNCED = 100 * MIB
SLOW_WRITERS, SLOW_SECONDS = 200, 2
SLOW_READERS = 50


def test_a_frame_uses_memory_only_for_received_bytes(broker: AttackedBroker) -> None:
    """A frame uses memory only for received bytes: 200 clients announce 100 MiB each and send a byte per second, and
    almost nothing is allocated.
    """
    before = broker.resident_bytes()
    with broker.crowd(SLOW_WRITERS) as clients:
        for client in clients:
            client.socket.sendall(struct.pack(">i", ANNOUNCED))
        for _ in range(SLOW_SECONDS):
            for client in clients:
                client.socket.sendall(b"\0")
            time.sleep(1)
        grown = broker.resident_bytes() - before
        broker.unhurt(grown_max=GROWN_MAX)

    assert grown < 16 * MIB


def test_incomplete_frames_are_bounded_in_total(broker: AttackedBroker) -> None:
    """Incomplete frames are bounded in total: when 8 clients have sent 60 of 100 MiB each, the broker has stopped
    reading from the last of them, and still serves small requests of other clients.
    """
    part = bytes(MIB)
    with broker.crowd(8) as clients:
        for client in clients:
            client.socket.settimeout(0.1)
            try:
                client.socket.sendall(struct.pack(">i", ANNOUNCED))
                for _ in range(60):
                    client.socket.sendall(part)
            except OSError:
                continue  # the broker reads no more from this client
        broker.unhurt(grown_max=420 * MIB)
    time.sleep(0.3)
    broker.unhurt(grown_max=GROWN_MAX * 2)


def filled_topic(broker: AttackedBroker, mib: int) -> str:
    topic = broker.topic()
    value = bytes(MIB - 1_000)
    with broker.connect() as client:
        for _ in range(mib):
            answered = client.ask(produce_request(topic, value), 9)
            assert 0 == answered.responses[0].partition_responses[0].error_code
    return topic


def test_unread_responses_are_bounded_in_total(broker: AttackedBroker) -> None:
    """While 50 clients request 50 MB twenty times each and read nothing, the broker's memory is bounded and others are
    served.
    """
    topic = filled_topic(broker, 56)
    broker.unhurt(grown_max=240 * MIB)
    request = frame_of(fetch_request(topic), 11)
    with broker.crowd(SLOW_READERS, receive_buffer=4096) as clients:
        for client in clients:
            client.socket.sendall(request * 20)
        largest = 0
        for _ in range(20):
            largest = max(largest, broker.resident_bytes() - broker.baseline)
            time.sleep(0.1)
        broker.unhurt(grown_max=500 * MIB)
    time.sleep(0.3)

    assert largest < 500 * MIB
    broker.unhurt(grown_max=320 * MIB)


def bomb() -> bytearray:
    """Return a batch that decompresses from about 8 KiB to 256 MiB of zeros."""
    records = zstandard.ZstdCompressor(level=19).compress(bytes(256 * MIB))
    batch = bytearray(build_batch([(None, b"", (), int(time.time() * 1000))])[:HEADER_BYTES]) + records
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, 4)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


def test_a_decompression_bomb_is_refused(broker: AttackedBroker) -> None:
    """
    A broker that stores batches as sent decompresses a batch only to look up a timestamp, and refuses to do so if the
    records exceed the limit of a batch.
    """
    topic = broker.topic()
    with broker.connect() as client:
        produced = client.ask(raw_produce_request(topic, bomb()), 9)
        before = broker.resident_bytes()
        asked = client.ask(list_offsets_request(topic, 1_000), 5)
        grown = broker.resident_bytes() - before

    assert 0 == produced.responses[0].partition_responses[0].error_code
    assert asked.topics[0].partitions[0].error_code != 0
    assert grown < 160 * MIB
    broker.unhurt(grown_max=320 * MIB)


def test_one_partition_is_looked_up_once_per_request(broker: AttackedBroker) -> None:
    """
    A request that names one partition a thousand times gets one lookup and errors for the rest, because a lookup may
    cost a decompression.
    """
    topic = broker.topic()
    with broker.connect() as client:
        client.ask(raw_produce_request(topic, bomb()), 9)
        asked = client.ask(list_offsets_request(topic, *range(1, 1_001)), 5)

    codes = [partition.error_code for partition in asked.topics[0].partitions]
    assert [errors.INVALID_REQUEST] * 999 == codes[1:]


def test_repeated_names_in_a_request_are_answered_once(broker: AttackedBroker) -> None:
    """A request that repeats a name ten thousand times gets one answer for it: a topic of 1,000 partitions, or its
    configuration.
    """
    topic = broker.topic(partitions=1_000)
    resource = describe_configs.Request.Resource(resource_type=2, resource_name=topic, configuration_keys=None)
    with broker.connect() as client:
        described = client.ask(metadata_request(*[topic] * 10_000), 5)
        configured = client.ask(describe_configs.Request(resources=[resource] * 10_000), 3)

    assert (1, 1) == (len(described.topics), len(configured.results))
    broker.unhurt(grown_max=320 * MIB)


def test_the_memory_of_fetch_sessions_is_bounded(broker: AttackedBroker) -> None:
    """
    The memory of fetch sessions is bounded: sessions with 40,000 unknown partitions each evict the oldest sessions.
    """
    asked = [
        fetch.Request.Topic.Partition(partition=number, fetch_offset=0, partition_max_bytes=1)
        for number in range(40_000)
    ]
    request = fetch.Request(
        max_wait_ms=0, min_bytes=0, topics=[fetch.Request.Topic(topic="nowhere", partitions=asked)],
        forgotten_topics_data=(), session_epoch=0,
    )  # fmt: skip
    frame = frame_of(request, 11)
    with broker.connect() as client:
        for _ in range(15):
            client.socket.sendall(frame)
            client.frame()

    broker.unhurt(grown_max=320 * MIB)


def test_pipelined_requests_are_bounded_by_unread_responses(broker: AttackedBroker) -> None:
    """
    The broker stops processing pipelined requests while too many responses are unread.  It answers every request once
    they are read.
    """
    topic = broker.topic()
    request = metadata_request(topic)
    with broker.connect(receive_buffer=4096) as client:
        sender = threading.Thread(target=client.socket.sendall, args=(frame_of(request, 5) * 20_000,))
        sender.start()
        answers = 0
        while answers < 20_000:
            client.frame()
            answers += 1
        sender.join()

    assert 20_000 == answers
    broker.unhurt(grown_max=320 * MIB)
