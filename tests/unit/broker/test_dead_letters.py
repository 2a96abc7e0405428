"""Dead letters on a cluster: coordinator, leader of the dead records, and leader of the letters are three brokers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from tests.unit.broker.cluster_world import ClusterWorld, Node
from tests.unit.broker.share_member import WAIT_MS, ShareMember, configure_group
from tests.unit.broker.sharing_cluster import sharing_cluster
from tidemill.batches.records import Record
from tidemill.broker.shares.led_share import LedShare, ShareKey
from tidemill.broker.shares.share_openings import shares_of
from tidemill.metadata.topics import DeleteTopics
from tidemill.model import dead_letters as names
from tidemill.model import errors
from tidemill.peer import share_letter
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.interval_map import Interval
from tidemill.share.record_status import Reason, RecordState, RecordStatus
from tidemill.share.share import Share
from tidemill.share.share_row import Letter
from tidemill.wire.messages import incremental_alter_configs

DEAD = "dlq.jobs"
ENABLE = "errors.deadletterqueue.group.enable"
TOPIC_TYPE, BROKER_TYPE = 2, 4


@pytest.fixture
def world() -> ClusterWorld:
    """A cluster whose broker 1 coordinates the share group `g`, and whose broker 2 leads the topic `jobs`."""
    made = sharing_cluster()
    configure(made, errors_deadletterqueue_topic_name=DEAD)
    return made


def configure(world: ClusterWorld, **settings: str) -> None:
    configure_group(world.controller, share_auto_offset_reset="earliest", **settings)


def set_config(world: ClusterWorld, kind: int, resource: str, name: str, value: str) -> None:
    config = incremental_alter_configs.Request.Resource.Config(name=name, config_operation=0, value=value)
    asked = incremental_alter_configs.Request.Resource(resource_type=kind, resource_name=resource, configs=[config])
    (answer,) = world.controller.ask(
        incremental_alter_configs.Request(resources=[asked], validate_only=False)
    ).responses
    assert not answer.error_code, answer.error_message


def create_dead_letter_topic(world: ClusterWorld, leader: int = 3, partitions: int = 1) -> None:
    others = [number for number in (1, 2, 3) if number != leader]
    world.create(DEAD, partitions, brokers=(leader, *others), errors_deadletterqueue_group_enable="true")


def joined(world: ClusterWorld, at: int = 2) -> ShareMember:
    member = ShareMember(world[at], "m", coordinator=world[1])
    member.join("jobs")
    return member


def kill_records(world: ClusterWorld, values: Sequence[bytes], at: int = 2) -> ShareMember:
    """Produce records, receive and reject them."""
    member = joined(world, at)
    world[at].produce("jobs", *values)
    offsets = [it.offset for it in member.receive(max_wait_ms=WAIT_MS)]
    assert errors.NONE == member.acknowledge(offsets[0], offsets[-1], Acknowledgement.REJECT)
    return member


def share(node: Node) -> Share:
    found = shares_of(node.partition("jobs")).of_group("g")
    assert found is not None, "the group has not read the partition"
    return found


def led(node: Node) -> LedShare:
    (found,) = node.broker.shares.led_shares
    return found


def letters(world: ClusterWorld, topic: str = DEAD) -> list[Record]:
    world.until(lambda: world.led_by(topic) != 0, f"{topic} is led")
    return world[world.led_by(topic)].read(topic)


def values(records: Sequence[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def headers(record: Record) -> dict[str, bytes | None]:
    return dict(record.headers)


def wait_for(world: ClusterWorld, count: int, topic: str = DEAD) -> list[Record]:
    world.until(lambda: len(letters(world, topic)) >= count, f"{count} letters")
    world.pass_time(2_000)
    found = letters(world, topic)
    assert len(found) == count, found
    return found


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
    assert [1, 1, 1] == [share(node).start for node in world.nodes]
    assert 1 == world[2].broker.metrics.letters_written


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
    create_dead_letter_topic(world)
    assert [b"a", b"b"] == values(wait_for(world, 2))
    assert led(world[2]).letter_problem is None


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


# Failures.


@contextmanager
def unsent_letters(world: ClusterWorld) -> Iterator[list[share_letter.Request]]:
    """Lose the letters that broker 2 sends to other brokers.  Yield them."""
    sent: list[share_letter.Request] = []
    peers = world[2].broker.cluster.peers
    ask = peers.ask

    def losing(voter: Any, api: Any, request: Any, *args: Any, **kwargs: Any) -> bool:
        if api is not share_letter.API:
            return ask(voter, api, request, *args, **kwargs)
        sent.append(request)
        return True

    with patch.object(peers, "ask", losing):
        yield sent


def assign_letters(world: ClusterWorld, values_: Sequence[bytes] = (b"a", b"b", b"c")) -> list[Letter]:
    """Let broker 2 assign letters, which it loses, and return them.  Broker 1 then leads."""
    create_dead_letter_topic(world)
    with unsent_letters(world):
        kill_records(world, values_)
        world.until(lambda: len(share(world[2]).letters) == min(len(values_), 4), "letters are assigned")
        assigned = [*share(world[2]).letters.values()]
        world.lead("jobs", by=1)
    return assigned


def test_the_next_leader_sends_the_letters_with_the_same_ids(world: ClusterWorld) -> None:
    """
    The letters of the old leader may be written.  The next leader sends them again with their own producer ids and
    sequences, so that they are duplicates, and uses an id of its own for further ones.
    """
    producer_ids = {letter.producer_id for letter in assign_letters(world, [bytes([number]) for number in range(6)])}

    assert [bytes([number]) for number in range(6)] == sorted(values(wait_for(world, 6)))
    producers = world[3].partition(DEAD).log.producers.newest()
    assert 1 == len(producer_ids) < len(producers)
    assert producer_ids < {*producers}
    assert 6 == share(world[1]).start


@pytest.mark.parametrize("answers", range(4))
def test_a_leader_that_fails_after_a_letter_is_written_writes_it_once(world: ClusterWorld, answers: int) -> None:
    """The letters are written, but `answers` of the answers, and what follows from them, arrive at the old leader."""
    create_dead_letter_topic(world)
    arrived = 0
    answered = type(world[2].broker.shares.letters)._answered

    def lossy(self: Any, it: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal arrived
        if self is world[2].broker.shares.letters:
            arrived += 1
            if arrived > answers:
                return
        answered(self, it, *args, **kwargs)

    with patch.object(type(world[2].broker.shares.letters), "_answered", lossy):
        kill_records(world, [b"a", b"b", b"c"])
        world.until(lambda: len(letters(world)) > min(answers, 2), "letters are written")
        world.pass_time(500)
        world.lead("jobs", by=1)
        assert [b"a", b"b", b"c"] == sorted(values(wait_for(world, 3)))
    assert 3 == share(world[1]).start


def test_the_first_letter_of_a_producer_id_goes_alone(world: ClusterWorld) -> None:
    """
    A target accepts any first sequence.  If the second letter overtook the first one, the first one could never be
    written.
    """
    create_dead_letter_topic(world)
    with unsent_letters(world) as sent:
        kill_records(world, [b"a", b"b", b"c"])
        world.pass_time(3_000)

    assert 3 == len(share(world[2]).letters)
    assert 1 == len(sent)


def test_at_most_four_letters_wait_for_an_answer(world: ClusterWorld) -> None:
    """The target remembers the last five batches of a producer, so it would not recognize an older duplicate."""
    create_dead_letter_topic(world)
    member = kill_records(world, [b"first"])
    wait_for(world, 1)
    with unsent_letters(world) as sent:
        world[2].produce("jobs", *[bytes([number]) for number in range(9)])
        got = member.receive(max_wait_ms=WAIT_MS)
        assert errors.NONE == member.acknowledge(got[0].offset, got[-1].offset, Acknowledgement.REJECT)
        world.pass_time(3_000)

    assert 4 == len(sent) == len(share(world[2]).letters)


def test_a_leaderless_target_holds_the_letters(world: ClusterWorld) -> None:
    """The letters are sent again, with a back-off, until the target has a leader."""
    world.create(DEAD, brokers=(3,), errors_deadletterqueue_group_enable="true")
    world.cut_off(3)
    kill_records(world, [b"a", b"b"])
    world.pass_time(8_000)
    problem = led(world[2]).letter_problem
    assert problem is not None and problem.startswith(f"{DEAD}-0: "), problem

    world.heal()
    world.pass_time(30_000)
    assert [b"a", b"b"] == values(wait_for(world, 2))


def test_a_full_disk_holds_the_letters(world: ClusterWorld) -> None:
    create_dead_letter_topic(world)
    with patch.object(world[3].broker, "storage_problem", lambda: "the disk is full"):
        kill_records(world, [b"a", b"b"])
        world.pass_time(8_000)
        assert led(world[2]).letter_problem == f"{DEAD}-0: KAFKA_STORAGE_ERROR: the disk is full"

    world.pass_time(30_000)
    assert [b"a", b"b"] == values(wait_for(world, 2))


def test_letters_to_a_topic_that_is_created_anew_get_another_id(world: ClusterWorld) -> None:
    """
    A letter that was written to the deleted topic is gone with it.  The letters are assigned to the new topic.
    """
    create_dead_letter_topic(world)
    with unsent_letters(world):
        kill_records(world, [b"a", b"b", b"c"])
        world.pass_time(1_000)
        old = {(letter.producer_id, letter.topic_id) for letter in share(world[2]).letters.values()}
        world.controller.broker.controller.submit(DeleteTopics(topics=(DEAD,)))
        world.lead("jobs", by=1)
    world.pass_time(3_000)
    create_dead_letter_topic(world)

    assert [b"a", b"b", b"c"] == values(wait_for(world, 3))
    ((producer_id, topic_id),) = old
    assert topic_id != world[1].broker.image.topics[DEAD].topic_id
    assert producer_id not in world[3].partition(DEAD).log.producers


def test_a_target_that_has_lost_a_letter_gets_the_rest_with_another_id(world: ClusterWorld) -> None:
    """
    The target refuses the next sequence of a producer whose last batch it lacks.  Without a new id, it would refuse the
    letters for ever.
    """
    create_dead_letter_topic(world)
    member = kill_records(world, [b"a"])
    wait_for(world, 1)
    (window,) = world[3].partition(DEAD).log.producers._producers.values()
    window[-1] = window[-1]._replace(first_sequence=7, last_sequence=7)
    world[2].produce("jobs", b"b", b"c")
    got = member.receive(max_wait_ms=WAIT_MS)

    assert errors.NONE == member.acknowledge(got[0].offset, got[-1].offset, Acknowledgement.REJECT)
    assert [b"a", b"b", b"c"] == values(wait_for(world, 3))
    assert 2 == len(world[3].partition(DEAD).log.producers)


def move_log_start(world: ClusterWorld, node: Node, offset: int) -> None:
    partition = node.partition("jobs")
    partition.shard.move_log_start(0, offset, world.clock.now_ms)
    world.until(lambda: partition.log.log_start == offset, "retention has removed the records")


def test_an_assigned_letter_is_written_after_retention_has_removed_its_record(world: ClusterWorld) -> None:
    """It may have been written before, so only a letter with the same id and sequence cannot be a second one."""
    create_dead_letter_topic(world)
    with unsent_letters(world):
        kill_records(world, [b"a", b"b"])
        world.pass_time(1_000)
        move_log_start(world, world[2], 2)
        assert (2, 2) == (share(world[2]).start, len(share(world[2]).letters))
        world.lead("jobs", by=1)

    found = wait_for(world, 2)
    assert {b"0", b"1"} == {headers(letter)[names.OFFSET] for letter in found}
    assert {} == share(world[1]).letters


def test_dead_records_that_retention_removes_are_counted_as_lost(world: ClusterWorld) -> None:
    kill_records(world, [b"a", b"b"])
    world.pass_time(1_000)
    move_log_start(world, world[2], 2)

    assert 2 == world[2].broker.metrics.letters_lost
    assert any("records removed unread" in line and "letters=2" in line for line in world[2].events)


# Redrive.


def resolve(world: ClusterWorld, group: str, offsets: range) -> None:
    """Reject records of the dead-letter topic in a redrive group, as an operator does."""
    host = world[3].broker.shares
    partition = world[3].partition(DEAD)
    key = ShareKey(group, world[3].broker.image.topics[DEAD].topic_id, 0)
    host.share(key, partition)
    world.until(lambda: host.share(key, partition) is not None, "the share is open")
    opened = host.share(key, partition)
    assert opened is not None
    status = RecordStatus(RecordState.ARCHIVING, 0, reason=Reason.REJECTED)
    host.decide(opened, [Interval(offsets.start, offsets.stop, status)])


def joined_group(world: ClusterWorld, group: str) -> None:
    """Let a group exist: its coordinator opens shares of known groups only."""
    ShareMember(world[3], "operator", group=group, coordinator=world[1]).join(DEAD)


def test_a_redrive_sends_records_back(world: ClusterWorld) -> None:
    """
    The record goes to the topic and partition from which it came, without the headers of the dead letter, and with the
    number of redrives.  What was sent back is not sent again.
    """
    create_dead_letter_topic(world)
    kill_records(world, [b"a", b"b"])
    wait_for(world, 2)
    joined_group(world, "__redrive")
    resolve(world, "__redrive", range(1))

    found = wait_for(world, 3, "jobs")
    assert [b"a", b"b", b"a"] == values(found)
    assert {names.REDRIVE_COUNT: b"1"} == headers(found[2])
    resolve(world, "__redrive", range(2))
    assert [b"a", b"b", b"a", b"b"] == values(wait_for(world, 4, "jobs"))


def test_a_redrive_to_another_topic(world: ClusterWorld) -> None:
    create_dead_letter_topic(world)
    world.create("again", brokers=(1, 2, 3))
    kill_records(world, [b"a"])
    wait_for(world, 1)
    joined_group(world, "__redrive.again")
    resolve(world, "__redrive.again", range(1))

    assert [b"a"] == values(wait_for(world, 1, "again"))


def test_a_redrive_to_an_unknown_topic_waits(world: ClusterWorld) -> None:
    """Records with other origins are sent back meanwhile."""
    create_dead_letter_topic(world)
    kill_records(world, [b"a"])
    wait_for(world, 1)
    world[3].produce(DEAD, b"without headers")
    joined_group(world, "__redrive")
    world.until(lambda: len(letters(world)) == 2, "both")
    resolve(world, "__redrive", range(2))
    world.pass_time(3_000)

    assert [b"a", b"a"] == values(letters(world, "jobs"))
    (waiting,) = [it for it in world[3].broker.shares.led_shares if it.key.group == "__redrive"]
    assert "record 1 has no header that names its topic" in str(waiting.letter_problem)
    assert 1 == waiting.share.start


def test_a_letter_without_content_is_not_sent_back(world: ClusterWorld) -> None:
    configure(world, errors_deadletterqueue_copy_record_enable="false")
    create_dead_letter_topic(world)
    world.create("again", brokers=(1, 2, 3))
    kill_records(world, [b"a"])
    wait_for(world, 1)
    joined_group(world, "__redrive.again")
    resolve(world, "__redrive.again", range(1))
    world.pass_time(3_000)

    assert [] == letters(world, "again")
    (waiting,) = [it for it in world[3].broker.shares.led_shares if it.key.group == "__redrive.again"]
    assert "letter 0 does not have the content of its record" in str(waiting.letter_problem)
