"""Clients that make the broker keep much, or unfold much."""

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


def test_a_frame_costs_what_came_of_it(broker: AttackedBroker) -> None:
    """
    200 clients announce 100 MiB each and send a byte a second: 20 GB announced, nothing kept.
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


def test_frames_that_never_end_are_bounded_together(broker: AttackedBroker) -> None:
    """
    8 clients send 60 of 100 MiB each and stop.  Those that are read last wait, others with small requests do not.
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
                continue  # the broker reads no further
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


def test_readers_that_never_read_are_bounded_together(broker: AttackedBroker) -> None:
    """
    50 clients ask for 50 MB twenty times each and read nothing; meanwhile others are served.
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
    """A batch of 256 MiB of zeros in some 8 KiB."""
    records = zstandard.ZstdCompressor(level=19).compress(bytes(256 * MIB))
    batch = bytearray(build_batch([(None, b"", (), int(time.time() * 1000))])[:HEADER_BYTES]) + records
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, 4)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


def test_a_decompression_bomb_does_not_go_off(broker: AttackedBroker) -> None:
    """
    What a producer compressed is opened only for a lookup by time, and no further than a batch may unfold.
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
    A lookup may cost a decompression: a request that names a partition a thousand times is told that it is wrong.
    """
    topic = broker.topic()
    with broker.connect() as client:
        client.ask(raw_produce_request(topic, bomb()), 9)
        begun = time.monotonic()
        asked = client.ask(list_offsets_request(topic, *range(1, 1_001)), 5)

    codes = [partition.error_code for partition in asked.topics[0].partitions]
    assert [errors.INVALID_REQUEST] * 999 == codes[1:]
    assert time.monotonic() - begun < 2


def test_a_short_question_has_no_endless_answer(broker: AttackedBroker) -> None:
    """
    A thousand partitions named ten thousand times, and all configuration as often, are told once.
    """
    topic = broker.topic(partitions=1_000)
    resource = describe_configs.Request.Resource(resource_type=2, resource_name=topic, configuration_keys=None)
    with broker.connect() as client:
        described = client.ask(metadata_request(*[topic] * 10_000), 5)
        configured = client.ask(describe_configs.Request(resources=[resource] * 10_000), 3)

    assert (1, 1) == (len(described.topics), len(configured.results))
    broker.unhurt(grown_max=320 * MIB)


def test_fetch_sessions_remember_no_more_than_they_may(broker: AttackedBroker) -> None:
    """
    Sessions of 40,000 partitions that do not exist: the oldest make room.
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


def test_pipelined_answers_wait_for_their_reader(broker: AttackedBroker) -> None:
    """
    Thousands of requests in one write: the broker looks at no more of them than it can answer, and at all in the end.
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
