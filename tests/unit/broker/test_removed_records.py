"""Records that retention removes before a share group has finished them are counted, and warned about."""

from dataclasses import replace

import pytest

from tests.unit.broker.broker_world import OPTIONS, BrokerWorld
from tests.unit.broker.handlers.test_delete_records import deleted
from tests.unit.broker.share_member import STATIC, WAIT_MS, Got, ShareMember, acquired_records, configure_group
from tidemill.broker.shares.share_openings import shares_of
from tidemill.model import dead_letters as names
from tidemill.model import errors
from tidemill.share.acknowledgement import Acknowledgement

DAY_MS = 86_400_000


def warnings(world: BrokerWorld) -> list[str]:
    return [line for line in world.events if "records removed unread" in line]


def counted(world: BrokerWorld) -> list[int]:
    return [share.expired_unread for share in shares_of(world.partition("jobs")).by_number.values()]


def member(world: BrokerWorld, group: str = "g") -> ShareMember:
    configure_group(world, group, share_auto_offset_reset="earliest")
    joined = ShareMember(world, group=group)
    joined.join("jobs")
    return joined


def test_the_leader_warns_once_for_each_group_and_removal() -> None:
    """
    A group that has finished the removed records is not named.  The event of another group has the number of records,
    and says what to do.  A removal without a loss causes no event.
    """
    world = BrokerWorld(STATIC)
    world.create("jobs")
    for value in (b"0", b"1", b"2", b"3"):
        world.produce("jobs", value)
    fast, slow = member(world, "fast"), member(world, "slow")
    fast.receive(max_wait_ms=WAIT_MS)
    assert errors.NONE == fast.acknowledge(0, 3)
    slow.receive(max_wait_ms=WAIT_MS)
    assert errors.NONE == slow.acknowledge(0, 0)

    assert (errors.NONE, 1) == deleted(world, 1, "jobs")
    assert [] == warnings(world)
    assert (errors.NONE, 3) == deleted(world, 3, "jobs")

    (line,) = warnings(world)
    for part in (
        "warning",
        "group=slow",
        "topic=jobs",
        "partition=0",
        "records=2",
        "log_start=3",
        "raise retention.ms",
    ):
        assert part in line
    assert [0, 2] == counted(world) == counted(world.restarted())


def test_a_share_that_loses_records_continually_causes_one_warning_an_hour() -> None:
    """The second warning counts everything that was removed since the first one."""
    world = BrokerWorld(STATIC)
    world.create("jobs")
    member(world).receive()
    world.produce("jobs", *[b"x"] * 40)

    for offset in range(1, 31):
        assert (errors.NONE, offset) == deleted(world, offset, "jobs")
    assert 1 == len(warnings(world))
    for _ in range(3):
        world.pass_time(3_600_000)

    first, second = warnings(world)
    assert "records=1 " in first
    assert "records=29 " in second


def test_many_shares_that_lose_records_are_all_named() -> None:
    world = BrokerWorld(STATIC)
    world.create("jobs")
    for number in range(30):
        member(world, f"group-{number}").receive()
    world.produce("jobs", b"x")

    assert (errors.NONE, 1) == deleted(world, 1, "jobs")

    assert 30 == len(warnings(world))


def test_the_locks_of_removed_records_are_free_at_once() -> None:
    """A fetch that waits because of the limit on locks is answered when retention removes the records that are held."""
    world = BrokerWorld(STATIC)
    world.create("jobs")
    configure_group(world, share_partition_max_record_locks="100")
    holder = member(world)
    world.produce("jobs", *[b"x"] * 100)
    world.produce("jobs", b"y")
    assert 100 == len(holder.receive(max_wait_ms=WAIT_MS))
    other = ShareMember(world, "other")
    other.join("jobs")
    other.receive()
    sent = other.client.send(other.fetch_request(max_wait_ms=DAY_MS))
    world.stabilize()
    assert other.client.answer(*sent) is None

    deleted(world, 50, "jobs")

    answer = other.client.answer(*sent)
    assert answer is not None, "the fetch still waits"
    (partition,) = answer.responses[0].partitions
    assert [(100, 100)] == [(it.first_offset, it.last_offset) for it in partition.acquired_records]


@pytest.mark.parametrize("order", ["none", "key"])
def test_a_read_that_retention_overtakes_is_no_error(order: str) -> None:
    """
    The records that a fetch has begun to read are removed before a reader thread gets to them.  The fetch waits for
    later records, as if it had come after the removal.
    """
    world = world_without_caches()
    configure_group(world, tidemill_share_order=order)
    consumer = member(world)
    assert [] == consumer.receive()
    produce_to_files(world, b"0", b"1", b"2")
    world.reads = False
    sent = consumer.client.send(consumer.fetch_request(max_wait_ms=DAY_MS))
    consumer.session_epoch += 1
    world.stabilize()
    assert world.read_jobs.unreported or world.opening_jobs.unreported, "the read has not begun"

    assert (errors.NONE, 3) == deleted(world, 3, "jobs")
    world.reads = True
    world.stabilize()

    assert consumer.client.answer(*sent) is None, "there was nothing to fetch"
    world.produce("jobs", b"3")
    assert [Got(3, b"3", 1)] == acquired_records(consumer.client.answer(*sent))


def test_the_letter_of_a_removed_record_has_only_headers() -> None:
    """
    The record is removed after its letter got a producer id, and before a reader thread gets to it.  The letter says
    where the record was, and why its content is missing.
    """
    world = world_without_caches()
    world.create("dlq.jobs", errors_deadletterqueue_group_enable="true")
    configure_group(world, errors_deadletterqueue_topic_name="dlq.jobs")
    consumer = member(world)
    produce_to_files(world, b"a", b"b")
    consumer.receive(max_wait_ms=WAIT_MS)
    world.reads = False
    assert errors.NONE == consumer.acknowledge(0, 0, Acknowledgement.REJECT)
    assert world.opening_jobs.unreported, "the record is not being read"

    assert (errors.NONE, 1) == deleted(world, 1, "jobs")
    world.reads = True
    world.stabilize()

    (letter,) = world.read("dlq.jobs")
    headers = dict(letter.headers)
    assert (None, b"removed by retention", b"0") == (letter.value, headers[names.OMITTED], headers[names.OFFSET])
    (share,) = shares_of(world.partition("jobs")).by_number.values()
    assert (1, {}) == (share.start, share.letters)


def world_without_caches() -> BrokerWorld:
    """Return a broker that reads every record in a reader thread, from a segment of its own."""
    world = BrokerWorld(STATIC, options=replace(OPTIONS, cache_bytes_max=0))
    world.disk.reads_cached = False
    world.create("jobs", internal_segment_bytes="1")
    return world


def produce_to_files(world: BrokerWorld, *values: bytes) -> None:
    """Produce records of which all but the last have left the memory."""
    for value in values:
        world.produce("jobs", value)
        world.pass_time(1_000)  # the record is written to its segment; it leaves the memory when the next one comes


def test_retention_warns_as_well() -> None:
    """Records that are too old are removed by the broker itself, with the same event."""
    world = BrokerWorld(STATIC)
    world.create("jobs", retention_ms="60000")
    consumer = member(world)
    world.produce("jobs", b"a", b"b")
    assert [Got(0, b"a", 1), Got(1, b"b", 1)] == consumer.receive(max_wait_ms=WAIT_MS)

    for _ in range(4):
        world.pass_time(300_000)

    (line,) = warnings(world)
    assert "records=2" in line
