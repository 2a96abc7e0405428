"""A fetch waits, up to its time limit, for the number of bytes that it requests."""

from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld, Client
from tidemill.broker.request.delayed_fetch import DelayedFetch
from tidemill.metadata.topics import DeleteTopics
from tidemill.model import errors
from tidemill.model.topic import METADATA_TOPIC, METADATA_TOPIC_ID
from tidemill.wire.messages.fetch import API, Request, Response

KIB = 1 << 10
VERSION = 11


def fetch(
    *numbers: int,
    offsets: tuple[int, ...] = (),
    wait_ms: int = 1_000,
    bytes_min: int = 1,
    bytes_max: int = 50 << 20,
    partition_bytes: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
    forget: tuple[int, ...] = (),
) -> Request:
    asked = [
        Request.Topic.Partition(
            partition=number,
            fetch_offset=offsets[at] if offsets else 0,
            partition_max_bytes=partition_bytes,
        )
        for at, number in enumerate(numbers)
    ]
    return Request(
        max_wait_ms=wait_ms,
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        session_id=session[0],
        session_epoch=session[1],
        topics=[Request.Topic(topic="flights", partitions=asked)] if asked else [],
        forgotten_topics_data=[Request.ForgottenTopic(topic="flights", partitions=forget)] if forget else [],
    )


def world_with(partitions: int = 1, **static: str) -> BrokerWorld:
    world = BrokerWorld({key.replace("_", "."): value for key, value in static.items()})
    world.create("flights", partitions=partitions)
    return world


def sizes(response: Response) -> dict[int, int]:
    """Return the size in bytes of each partition's records."""
    return {
        answer.partition_index: len(bytes(answer.records or b""))  # type: ignore[arg-type]
        for topic in response.responses
        for answer in topic.partitions
    }


class Waiting:
    """A client whose fetch is waiting at the broker."""

    def __init__(self, world: BrokerWorld, request: Request) -> None:
        self.client = Client(world)
        self.client.send(request, VERSION)
        world.stabilize()

    def answer(self) -> Any:
        return self.client.answer(API, VERSION)


def test_a_fetch_waits_for_its_bytes() -> None:
    """
    A fetch that requests at least 10 KiB is not answered after one record of 6 KiB, but after the second.
    """
    world = world_with()
    waiting = Waiting(world, fetch(0, bytes_min=10 * KIB))
    world.produce("flights", bytes(6 * KIB))
    early = waiting.answer()

    world.produce("flights", bytes(6 * KIB))

    assert None is early
    assert sizes(waiting.answer())[0] > 12 * KIB


def test_a_fetch_waits_no_longer_than_its_time_limit() -> None:
    """
    When the time limit is reached, the response contains whatever records are available.
    """
    world = world_with()
    waiting = Waiting(world, fetch(0, bytes_min=10 * KIB, wait_ms=500))
    world.produce("flights", b"little")
    world.pass_time(499)
    early = waiting.answer()

    world.pass_time(1)

    assert None is early
    assert sizes(waiting.answer())[0] > 0
    assert {} == world.partition("flights").watchers


def test_an_error_ends_the_wait() -> None:
    """
    An error in one partition is returned immediately, whatever else the request asks for.
    """
    world = world_with()

    answered = world.ask(fetch(0, 9, wait_ms=60_000), VERSION)

    codes = {it.partition_index: it.error_code for it in answered.responses[0].partitions}
    assert {0: errors.NONE, 9: errors.UNKNOWN_TOPIC_OR_PARTITION} == codes


def test_a_client_that_read_truncated_records_is_told_at_once() -> None:
    """
    A client that has read records that were truncated later gets the end offset of the last epoch that it and the
    leader have in common.  For an epoch that the leader does not know, the error is OFFSET_OUT_OF_RANGE.
    """
    world = world_with()
    for _ in range(2):
        world.produce("flights", b"x")
        world = world.restarted()
        world.stabilize()
    known = [epoch.epoch for epoch in world.partition("flights").log.epochs.starts]

    def diverging(epoch: int, offset: int) -> tuple[int, Any]:
        request = fetch(0, offsets=(offset,), wait_ms=60_000, session=(0, 0))
        request.topics[0].partitions[0].last_fetched_epoch = epoch
        answer = world.ask(request, 12).responses[0].partitions[0]
        diverging = answer.diverging_epoch
        return answer.error_code, diverging and (diverging.epoch, diverging.end_offset)

    assert (errors.NONE, None) == diverging(known[0], 1)
    assert (errors.NONE, (known[0], 1)) == diverging(known[0], 2)
    assert (errors.OFFSET_OUT_OF_RANGE, None) == diverging(known[-1] + 1, 2)


def test_every_partition_is_in_a_full_response() -> None:
    """
    A full response also includes the partitions whose records do not fit, because a client concludes from a missing
    partition that the session is broken.
    """
    world = world_with(partitions=3)
    for number in range(3):
        world.produce("flights", bytes(8 * KIB), number=number)

    answered = world.ask(fetch(0, 1, 2, bytes_max=10 * KIB), VERSION)

    found = sizes(answered)
    assert [0, 1, 2] == list(found)
    assert (True, 0, 0) == (found[0] > 8 * KIB, found[1], found[2])


def test_a_response_with_enough_bytes_takes_no_further_partitions() -> None:
    """
    The broker reads no further partitions once the response contains 4 MiB, unless the request requires more bytes: if
    the broker stopped earlier, such a request might never be satisfied.
    """
    world = world_with(partitions=9)
    for number in range(9):
        world.produce("flights", bytes(700 * KIB), number=number)

    answered = sizes(world.ask(fetch(*range(9)), VERSION))
    asked_for_more = sizes(world.ask(fetch(*range(9), bytes_min=5_000 * KIB, wait_ms=60_000), VERSION))

    assert (6, 8) == (sum(map(bool, answered.values())), sum(map(bool, asked_for_more.values())))


def test_a_reader_thread_reads_no_more_than_enough() -> None:
    """
    When a response holds enough bytes, a reader thread reads no more: bytes from the disk count towards the same limit
    as bytes in memory.
    """
    world = world_with(partitions=9)
    for number in range(9):
        world.produce("flights", bytes(700 * KIB), number=number)
    world = world.restarted()  # no batch is in memory, and no earlier read has stored a position in a segment

    answered = sizes(world.ask(fetch(*range(9)), VERSION))

    assert 6 == sum(map(bool, answered.values()))


def test_a_batch_larger_than_the_limit_is_returned_if_it_is_the_first() -> None:
    """
    The first batch is returned even if it is larger than the limit; otherwise a consumer could never get past it
    (KIP-74).
    """
    world = world_with(partitions=2)
    world.produce("flights", bytes(8 * KIB), number=0)
    world.produce("flights", bytes(8 * KIB), number=1)

    answered = world.ask(fetch(0, 1, bytes_max=100, partition_bytes=100), VERSION)

    found = sizes(answered)
    assert (True, 0) == (found[0] > 8 * KIB, found[1])


def test_in_a_session_a_served_partition_is_last_next_time() -> None:
    """
    In a session, a partition whose records were sent is the last in the next response, so that a partition with many
    records does not starve the others.
    """
    world = world_with(partitions=3)
    for number in range(3):
        for _ in range(3):
            world.produce("flights", bytes(8 * KIB), number=number)
    first = world.ask(fetch(0, 1, 2, bytes_max=10 * KIB, session=(0, 0)), VERSION)

    served = [sizes(first)]
    for epoch in (1, 2):
        served.append(sizes(world.ask(fetch(bytes_max=10 * KIB, session=(first.session_id, epoch)), VERSION)))

    assert [[0], [1], [2]] == [[number for number, size in found.items() if size] for found in served]


def test_an_incremental_response_has_only_news() -> None:
    """
    A partition is left out if it has no new records and the client already knows its log start and high watermark.
    """
    world = world_with(partitions=3)
    first = world.ask(fetch(0, 1, 2, wait_ms=0, session=(0, 0)), VERSION)

    nothing = world.ask(fetch(wait_ms=0, session=(first.session_id, 1)), VERSION)
    world.produce("flights", b"news", number=1)
    news = world.ask(fetch(wait_ms=0, session=(first.session_id, 2)), VERSION)

    assert ([0, 1, 2], [], [1]) == (list(sizes(first)), list(sizes(nothing)), list(sizes(news)))


def test_a_forgotten_partition_is_not_in_the_response() -> None:
    """
    A partition that the client has forgotten is not in the response.  A consumer forgets a partition when it pauses it,
    or when the partition is assigned to another member of the group.
    """
    world = world_with(partitions=2)
    first = world.ask(fetch(0, 1, wait_ms=0, session=(0, 0)), VERSION)
    world.produce("flights", b"a", number=0)
    world.produce("flights", b"b", number=1)

    answered = world.ask(fetch(wait_ms=0, session=(first.session_id, 1), forget=(0,)), VERSION)

    assert [1] == list(sizes(answered))


def test_the_deletion_of_a_topic_ends_the_wait() -> None:
    """
    If the topic is deleted, no more records can arrive, so the waiting fetch fails with UNKNOWN_TOPIC_OR_PARTITION.
    """
    world = world_with()
    waiting = Waiting(world, fetch(0, wait_ms=60_000))

    world.broker.controller.submit(DeleteTopics(topics=("flights",)))
    world.stabilize()

    answered = waiting.answer()
    assert errors.UNKNOWN_TOPIC_OR_PARTITION == answered.responses[0].partitions[0].error_code


def test_the_responses_of_all_clients_share_memory() -> None:
    """
    A client gets fewer bytes while other clients have many unread bytes, but always at least one batch.
    """
    world = world_with()
    for _ in range(12):
        world.produce("flights", bytes(16 * KIB))
    hoarder = Client(world).connection
    world.broker.memory.unread(hoarder, 256 << 20)

    answered = world.ask(fetch(0), VERSION)

    assert 3 == sizes(answered)[0] // (16 * KIB)


def test_a_defect_during_the_wait_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If a waiting fetch fails with an unexpected error when a Produce request wakes it, its client gets an error, and the
    Produce request is not affected.
    """
    world = world_with()
    waiting = Waiting(world, fetch(0, wait_ms=60_000))

    def failing(fetch: DelayedFetch) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(DelayedFetch, "_evaluate", failing)
    produced = world.produce("flights", b"news")

    assert (0, errors.UNKNOWN_SERVER_ERROR) == (produced.error_code, waiting.answer().error_code)
    assert ({}, 1) == (world.partition("flights").watchers, world.broker.metrics.request_failures)


def test_a_topic_is_fetched_by_its_id() -> None:
    """
    Requests name topics by id from version 13 on.  An unknown id is immediately answered with UNKNOWN_TOPIC_ID.
    """
    world = world_with()
    world.produce("flights", b"x")
    known, unknown = world.partition("flights").log.topic_id, b"?" * 16
    asked = [
        Request.Topic(
            topic_id=topic_id,
            partitions=[Request.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
        )
        for topic_id in (known, unknown)
    ]

    answered = world.ask(Request(max_wait_ms=1_000, min_bytes=1, topics=asked))

    assert [(known, errors.NONE, True), (unknown, errors.UNKNOWN_TOPIC_ID, False)] == [
        (topic.topic_id, it.error_code, bool(it.records)) for topic in answered.responses for it in topic.partitions
    ]


def test_bytes_read_from_disk_do_not_hide_later_records() -> None:
    """
    The records on disk are too small to end the wait; together with records that are produced later they are enough.
    """
    world = world_with()
    world.produce("flights", b"x" * 100)
    again = world.restarted()
    again.disk.evict()
    client = Client(again)
    api, version = client.send(fetch(0, wait_ms=60_000, bytes_min=2_000), VERSION)
    again.stabilize()
    assert client.answer(api, version) is None

    again.produce("flights", b"y" * 5_000)
    again.stabilize()

    answered = client.answer(api, version)
    assert answered is not None and sizes(answered)[0] > 100
    assert 0 == again.broker.memory.reading_bytes


def test_no_client_fetches_the_metadata() -> None:
    """
    The topic is for brokers only, by its name and by its id: it will hold credentials.
    """
    world = world_with()
    asked = [Request.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=KIB)]
    for version, topic in (
        (VERSION, Request.Topic(topic=METADATA_TOPIC, partitions=asked)),
        (16, Request.Topic(topic_id=METADATA_TOPIC_ID, partitions=asked)),
    ):
        response = world.ask(Request(max_wait_ms=0, min_bytes=1, max_bytes=KIB, topics=[topic]), version=version)
        (answer,) = response.responses[0].partitions
        assert errors.TOPIC_AUTHORIZATION_FAILED == answer.error_code
        assert not answer.records
