"""Dead letters on a cluster: coordinator, leader of the dead records, and leader of the letters are three brokers."""

import pytest

from tests.unit.batches.record_bytes import raw_records
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.letter_cluster import (
    BROKER_TYPE,
    DEAD,
    ENABLE,
    TOPIC_TYPE,
    configure,
    create_dead_letter_topic,
    headers,
    joined,
    kill_records,
    led,
    letter_cluster,
    letters,
    set_config,
    share,
    values,
    wait_for,
)
from tests.unit.broker.lone_consumer import ResolvesShares
from tests.unit.broker.share_member import WAIT_MS, Got, ShareMember
from tidemill.batches.compression import Codec
from tidemill.batches.records import OPENED_HEADERS_MAX, Record
from tidemill.broker.shares.letter_reader import BATCH_BYTES_MAX
from tidemill.model import dead_letters as names
from tidemill.model import errors
from tidemill.share.acknowledgement import Acknowledgement


@pytest.fixture
def world() -> ClusterWorld:
    """A cluster whose broker 1 coordinates the share group `g`, and whose broker 2 leads the topic `jobs`."""
    return letter_cluster()


def test_a_rejected_record_becomes_a_letter(world: ClusterWorld) -> None:
    """
    The letter has the record's key, value and headers after those that say where it came from and why.  When it is
    written, the record is finished.
    """
    create_dead_letter_topic(world)
    kill_records(world, [b"a"])

    (letter,) = wait_for(world, 1)
    assert (None, b"a") == (letter.key, letter.value)
    found = headers(letter)
    assert found.pop(names.TIMESTAMP) is not None
    assert found == {
        names.TOPIC: b"jobs",
        names.PARTITION: b"0",
        names.OFFSET: b"0",
        names.GROUP: b"g",
        names.DELIVERY_COUNT: b"1",
        names.MESSAGE: b"Offset rejected by client.",
    }
    assert world.clock.now_ms >= letter.timestamp > world.clock.now_ms - 10_000
    assert [1, 1, 1] == [share(node).start for node in world.nodes]
    assert 1 == world[2].broker.metrics.letters_written


def test_a_letter_has_the_bytes_of_names_that_are_no_text(world: ClusterWorld) -> None:
    """A producer may name a header with any bytes, and the letter has the record's own headers."""
    create_dead_letter_topic(world)
    kill_records(world, [b"a"], headers=[("\udcff\udcfe", b"1"), ("\udcff\udcfe", None)])
    wait_for(world, 1)

    log = world[3].partition(DEAD).log
    read = log.read(0, 1 << 20, log.end_offset, may_wait=True)

    assert read is not None
    ((_, _, found),) = raw_records(read[0][0])
    assert [(b"\xff\xfe", b"1"), (b"\xff\xfe", None)] == found[-2:]


def test_the_letter_of_a_record_that_failed_too_often(world: ClusterWorld) -> None:
    """A record whose last delivery has ended in vain has the delivery limit as the cause."""
    configure(world, share_delivery_count_limit="2")
    create_dead_letter_topic(world)
    member = joined(world)
    world[2].produce("jobs", b"a")
    for count in (1, 2):
        assert [Got(0, b"a", count)] == member.receive(max_wait_ms=WAIT_MS)
        assert errors.NONE == member.acknowledge(0, 0, Acknowledgement.RELEASE)

    (letter,) = wait_for(world, 1)

    assert (b"a", b"Offset delivery count exceeded the threshold.", b"2") == cause(letter)


def test_the_letter_of_an_expired_record(world: ClusterWorld) -> None:
    """A record that is older than the group permits was never delivered, and its letter has its age as the cause."""
    configure(world, tidemill_share_ttl_ms="60000")
    create_dead_letter_topic(world)
    member = joined(world)
    world[2].produce("jobs", b"a", timestamp_ms=world.clock.now_ms - 60_000)
    world[2].produce("jobs", b"young")
    assert [Got(1, b"young", 1)] == member.receive(max_wait_ms=WAIT_MS)

    (letter,) = wait_for(world, 1)

    assert (b"a", b"Record expired.", b"0") == cause(letter)


def cause(letter: Record) -> tuple[bytes | None, bytes | None, bytes | None]:
    """Return the value of a letter, why the record is dead, and how often it was delivered."""
    found = headers(letter)
    return letter.value, found[names.MESSAGE], found[names.DELIVERY_COUNT]


def test_many_dead_records_become_letters_in_order(world: ClusterWorld) -> None:
    """
    Each record becomes one letter, although at most four are assigned at a time.
    """
    create_dead_letter_topic(world)
    kill_records(world, [bytes([number]) for number in range(40)])

    assert [bytes([number]) for number in range(40)] == values(wait_for(world, 40))
    assert 40 == share(world[2]).start
    assert {} == share(world[2]).letters


def test_the_broker_may_lead_both_partitions(world: ClusterWorld) -> None:
    """A letter to a partition that the broker leads itself is written in the same way."""
    create_dead_letter_topic(world, leader=2)
    kill_records(world, [b"a", b"b"])

    assert [b"a", b"b"] == values(wait_for(world, 2))


def test_without_a_topic_for_dead_letters_records_are_archived(world: ClusterWorld) -> None:
    configure(world, errors_deadletterqueue_topic_name="")
    create_dead_letter_topic(world)
    kill_records(world, [b"a"])

    world.pass_time(2_000)
    assert [] == letters(world)
    assert 1 == share(world[2]).start


def test_a_missing_topic_holds_the_records(world: ClusterWorld) -> None:
    """
    The records are kept, the reason is shown with what to do about it, and is logged once.  When the topic exists, the
    letters are written.
    """
    member = kill_records(world, [b"a", b"b"])
    world.pass_time(10_000)

    assert 0 == share(world[2]).start
    problem = led(world[2]).letter_problem
    assert problem is not None
    assert problem.startswith("topic dlq.jobs does not exist: create it with " + ENABLE)
    assert 1 == sum("dead letters wait" in line for line in world[2].events)
    assert [] == member.receive()
    described = ResolvesShares(world[2]).describe()
    assert (2, f"dead letters wait: {problem}") == (described.archiving, described.blocked_by)

    create_dead_letter_topic(world)

    assert [b"a", b"b"] == values(wait_for(world, 2))
    assert led(world[2]).letter_problem is None
    described = ResolvesShares(world[2]).describe()
    assert (0, None) == (described.archiving, described.blocked_by)


def test_a_topic_that_does_not_take_dead_letters_gets_none(world: ClusterWorld) -> None:
    world.create(DEAD, brokers=(3, 1, 2))
    kill_records(world, [b"a"])
    world.pass_time(5_000)

    assert [] == letters(world)
    assert led(world[2]).letter_problem == f"topic {DEAD} does not take dead letters: set {ENABLE}=true on it"
    set_config(world, TOPIC_TYPE, DEAD, ENABLE, "true")
    assert [b"a"] == values(wait_for(world, 1))


def test_a_missing_topic_is_created_where_that_is_permitted(world: ClusterWorld) -> None:
    """The created topic takes dead letters.  A topic whose name lacks the prefix is not created."""
    set_config(world, BROKER_TYPE, "", "errors.deadletterqueue.auto.create.topics.enable", "true")
    configure(world, errors_deadletterqueue_topic_name="dead")
    kill_records(world, [b"a"])
    world.pass_time(3_000)
    assert world[2].broker.image.topic("dead") is None

    configure(world, errors_deadletterqueue_topic_name=DEAD)
    assert [b"a"] == values(wait_for(world, 1))
    assert {ENABLE: "true"} == dict(world[2].broker.image.topic_overrides(DEAD))


def test_a_group_may_drop_its_dead_letters(world: ClusterWorld) -> None:
    """After five attempts, the record is archived and counted."""
    configure(world, tidemill_dlq_on_failure="drop")
    kill_records(world, [b"a", b"b"])
    world.pass_time(10_000)
    assert 0 == share(world[2]).start
    world.pass_time(60_000)

    assert 2 == share(world[2]).start
    assert (0, 2) == (world[2].broker.metrics.letters_written, world[2].broker.metrics.letters_dropped)
    create_dead_letter_topic(world)
    world.pass_time(2_000)
    assert [] == letters(world)


def test_a_letter_to_the_records_own_topic_is_archived(world: ClusterWorld) -> None:
    """The group would get its dead letter as a new record, again and again."""
    set_config(world, TOPIC_TYPE, "jobs", ENABLE, "true")
    configure(world, errors_deadletterqueue_topic_name="jobs")
    kill_records(world, [b"a"])
    world.pass_time(2_000)

    assert [b"a"] == values(letters(world, "jobs"))
    assert 1 == share(world[2]).start
    assert 1 == world[2].broker.metrics.letters_dropped


def test_a_record_that_is_too_large_with_its_headers_leaves_only_headers(world: ClusterWorld) -> None:
    create_dead_letter_topic(world)
    set_config(world, TOPIC_TYPE, DEAD, "max.message.bytes", "500")
    kill_records(world, [b"x" * 400, b"small"])

    large, small = wait_for(world, 2)
    assert (None, b"too large", b"0") == (
        large.value,
        headers(large)[names.OMITTED],
        headers(large)[names.OFFSET],
    )
    assert b"small" == small.value


def test_countless_headers_are_left_out(world: ClusterWorld) -> None:
    """Each would take a hundred bytes of memory to be copied, and two bytes of a record can be one."""
    create_dead_letter_topic(world)
    kill_records(world, [b"a"], headers=[("", None)] * (OPENED_HEADERS_MAX + 1))

    (letter,) = wait_for(world, 1)
    assert (None, b"too large") == (letter.value, headers(letter)[names.OMITTED])


def test_records_of_a_batch_that_decompresses_to_too_much_are_left_out(world: ClusterWorld) -> None:
    """A few kB of a producer become tens of megabytes, out of which a record is copied."""
    create_dead_letter_topic(world)
    kill_records(world, [b"small", bytes(BATCH_BYTES_MAX)], codec=Codec.ZSTD)

    assert [(None, b"too large")] * 2 == [(it.value, headers(it)[names.OMITTED]) for it in wait_for(world, 2)]


def test_a_group_may_leave_out_the_record(world: ClusterWorld) -> None:
    configure(world, errors_deadletterqueue_copy_record_enable="false")
    create_dead_letter_topic(world)
    kill_records(world, [b"a"])

    (letter,) = wait_for(world, 1)
    assert letter.value is None
    assert b"0" == headers(letter)[names.OFFSET]
    assert names.OMITTED not in headers(letter)


def test_the_partition_of_a_letter_follows_from_that_of_its_record(world: ClusterWorld) -> None:
    """It is the number of the record's partition modulo the number of partitions of the target."""
    world.create("many", 3, brokers=(2, 1, 3))
    create_dead_letter_topic(world, partitions=2)
    member = ShareMember(world[2], "m", coordinator=world[1])
    member.join("many")
    for number in range(3):
        world[2].produce("many", bytes([number]), number=number)
    received = 0
    while received < 3:
        received += len(member.receive(max_wait_ms=WAIT_MS))
    for number in range(3):
        assert errors.NONE == member.acknowledge(0, 0, Acknowledgement.REJECT, number=number)
    world.pass_time(3_000)

    assert {b"\x00", b"\x02"} == {*values(world[3].read(DEAD, 0))}
    assert [b"\x01"] == values(world[3].read(DEAD, 1))
