"""ShareFetch and ShareAcknowledge, through a Kafka connection to a whole broker."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.handlers import test_create_partitions
from tests.unit.broker.share_member import STATIC, WAIT_MS, Got, ShareMember, acquired_records, configure_group
from tidemill.broker.shares.share_openings import shares_of
from tidemill.metadata.topics import DeleteTopics
from tidemill.model import errors
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.partition_shares import PartitionShares
from tidemill.share.share_session import FINAL_EPOCH
from tidemill.wire.messages import share_fetch

LOCK_MS = 10_000


@pytest.fixture
def world() -> BrokerWorld:
    """A broker with the topic `jobs`, whose share group `g` reads from the beginning."""
    made = BrokerWorld(STATIC)
    made.create("jobs")
    configure_group(made, share_auto_offset_reset="earliest", share_record_lock_duration_ms=str(LOCK_MS))
    return made


def member(world: BrokerWorld, name: str = "m") -> ShareMember:
    joined = ShareMember(world, name)
    joined.join("jobs")
    return joined


def shares(world: BrokerWorld) -> PartitionShares:
    return shares_of(world.partition("jobs"))


def waiting(consumer: ShareMember, **fields: int) -> tuple[object, int]:
    """Send a fetch that finds nothing, and return what `Client.answer` needs."""
    sent = consumer.client.send(consumer.fetch_request(max_wait_ms=WAIT_MS, **fields))
    consumer.session_epoch += 1
    consumer.world.stabilize()
    assert consumer.client.answer(*sent) is None, "there was something to fetch"
    return sent


def test_records_are_delivered_once(world: BrokerWorld) -> None:
    """
    Two members get disjoint records.  What a member has accepted is not delivered again, and the start moves past it.
    """
    first, second = member(world, "first"), member(world, "second")
    world.produce("jobs", b"a", b"b")
    assert [Got(0, b"a", 1), Got(1, b"b", 1)] == first.receive(max_wait_ms=WAIT_MS)
    world.produce("jobs", b"c")

    assert [Got(2, b"c", 1)] == second.receive()
    assert errors.NONE == first.acknowledge(0, 1)
    assert [] == first.receive() == second.receive()
    (share,) = shares(world).by_number.values()
    assert 2 == share.start


def test_latest_begins_at_the_end(world: BrokerWorld) -> None:
    """
    Without a setting, a group gets the records that are produced after its first fetch has opened the share.
    """
    consumer = ShareMember(world, group="late")
    world.produce("jobs", b"old")
    consumer.join("jobs")

    assert [] == consumer.receive()
    world.produce("jobs", b"new")
    assert [Got(1, b"new", 1)] == consumer.receive()


def test_added_partitions_are_read_from_their_start(world: BrokerWorld) -> None:
    """
    A group that began at the end gets the records that were produced to a new partition before any member knew of it.
    """
    consumer = ShareMember(world, group="late")
    consumer.join("jobs")
    assert [] == consumer.receive()
    world.ask(test_create_partitions.request("jobs", 2))
    world.produce("jobs", b"early", number=1)

    while [1] != [number for numbers in consumer.assigned.values() for number in numbers if number]:
        world.pass_time(1_000)
        consumer.heartbeat()
    consumer.session_epoch = 0

    assert [Got(0, b"early", 1)] == consumer.receive(max_wait_ms=WAIT_MS)


def test_a_fetch_waits_for_records(world: BrokerWorld) -> None:
    """
    A fetch that finds nothing is answered when a record is committed, or with nothing when its wait is over.
    """
    consumer = member(world)
    assert [] == consumer.receive()
    sent = waiting(consumer)
    world.produce("jobs", b"a")
    answer = consumer.client.answer(*sent)
    assert [Got(0, b"a", 1)] == acquired_records(answer)

    sent = waiting(consumer)
    world.pass_time(WAIT_MS)
    assert [] == acquired_records(consumer.client.answer(*sent))


def test_released_records_are_delivered_again(world: BrokerWorld) -> None:
    """
    A released record goes to the next member that waits, with the next delivery count.  A rejected record is not
    delivered again.
    """
    first, second = member(world, "first"), member(world, "second")
    world.produce("jobs", b"a", b"b")
    first.receive(max_wait_ms=WAIT_MS)
    second.receive()
    sent = waiting(second)

    assert errors.NONE == first.acknowledge(0, 0, Acknowledgement.REJECT)
    assert errors.NONE == first.acknowledge(1, 1, Acknowledgement.RELEASE)

    assert [Got(1, b"b", 2)] == acquired_records(second.client.answer(*sent))


def test_a_lock_expires(world: BrokerWorld) -> None:
    """
    When the lock expires, another member gets the record, and the first one's acknowledgement is refused.
    """
    first, second = member(world, "first"), member(world, "second")
    world.produce("jobs", b"a")
    first.receive(max_wait_ms=WAIT_MS)
    assert [] == second.receive()
    for _ in range(LOCK_MS // 400 + 1):  # at most 500 ms between two ticks count
        world.pass_time(400)

    assert [Got(0, b"a", 2)] == second.receive()
    assert errors.INVALID_RECORD_STATE == first.acknowledge(0, 0)


def test_a_stall_expires_no_lock(world: BrokerWorld) -> None:
    """
    A broker that was stalled for longer than the lock duration takes no records away: the acknowledgements that arrived
    meanwhile are applied, whether the broker reads them before or after its next tick.
    """
    first, second = member(world, "first"), member(world, "second")
    world.produce("jobs", b"a", b"b")
    first.receive(max_wait_ms=WAIT_MS)
    second.receive()

    world.pass_time(10 * LOCK_MS)

    assert [] == second.receive()
    assert errors.NONE == first.acknowledge(0, 0)
    world.clock.now_ms += 10 * LOCK_MS
    assert errors.NONE == first.acknowledge(1, 1)


def test_a_renewed_lock_does_not_expire(world: BrokerWorld) -> None:
    """
    A renewal (KIP-1222) begins a new lock duration.
    """
    first, second = member(world, "first"), member(world, "second")
    world.produce("jobs", b"a")
    first.receive(max_wait_ms=WAIT_MS)
    for _ in range(LOCK_MS // 400 + 5):
        world.pass_time(400)
        assert errors.NONE == first.acknowledge(0, 0, Acknowledgement.RENEW)

    assert [] == second.receive()


def test_a_record_that_fails_too_often_is_archived(world: BrokerWorld) -> None:
    """
    After the last permitted delivery the record is archived, and the start passes it.
    """
    configure_group(world, share_delivery_count_limit="2")
    consumer = member(world)
    world.produce("jobs", b"a")

    for count in (1, 2):
        assert [Got(0, b"a", count)] == consumer.receive(max_wait_ms=WAIT_MS)
        assert errors.NONE == consumer.acknowledge(0, 0, Acknowledgement.RELEASE)

    assert [] == consumer.receive()
    assert [1] == [share.start for share in shares(world).by_number.values()]


def test_acknowledgements_in_a_fetch(world: BrokerWorld) -> None:
    """
    A ShareFetch acknowledges and fetches; its response has the outcome of the acknowledgements and the new records.
    """
    consumer = member(world)
    world.produce("jobs", b"a")
    consumer.receive(max_wait_ms=WAIT_MS)
    world.produce("jobs", b"b")

    answer = consumer.fetch({0: [(0, 0, Acknowledgement.ACCEPT)]})

    assert [Got(1, b"b", 1)] == acquired_records(answer)
    assert errors.NONE == answer.responses[0].partitions[0].acknowledge_error_code
    assert [1] == [share.start for share in shares(world).by_number.values()]


def test_the_end_of_a_session_releases_records(world: BrokerWorld) -> None:
    """
    The records of a member that closes its session, or whose connection closes, are available at once, and their
    delivery counts.
    """
    first, second, third = (member(world, name) for name in ("first", "second", "third"))
    world.produce("jobs", b"a")
    first.receive(max_wait_ms=WAIT_MS)
    assert [] == first.receive(share_session_epoch=FINAL_EPOCH)

    assert [Got(0, b"a", 2)] == second.receive()
    second.disconnect()
    assert [Got(0, b"a", 3)] == third.receive()


def test_a_delivery_that_was_not_sent_does_not_count(world: BrokerWorld) -> None:
    """
    A client disconnects while its response waits for the commit of its acknowledgements.  The records that were
    acquired for the response are available at once, with the delivery count that they had before; a record that the
    client did get counts as delivered.
    """
    first, second = member(world, "first"), member(world, "second")
    world.produce("jobs", b"a", b"b")
    first.receive(max_wait_ms=WAIT_MS)
    world.produce("jobs", b"c")
    world.writes = False
    first.client.send(first.fetch_request({0: [(0, 0, Acknowledgement.ACCEPT)]}))
    world.stabilize()
    assert [] == second.receive(), "the record is acquired for the response"

    first.disconnect()

    assert [Got(1, b"b", 2), Got(2, b"c", 1)] == second.receive()


def test_the_connection_of_a_replaced_session_may_close(world: BrokerWorld) -> None:
    """
    A member that opens a session over a new connection keeps its records when the old connection closes.
    """
    old, other = member(world, "m"), member(world, "other")
    world.produce("jobs", b"a")
    old.receive(max_wait_ms=WAIT_MS)
    new = ShareMember(world, "m")
    new.assigned = old.assigned
    assert [] == new.receive()

    old.disconnect()

    assert [] == other.receive()
    assert errors.NONE == new.acknowledge(0, 0)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(7, errors.INVALID_SHARE_SESSION_EPOCH), (FINAL_EPOCH, errors.NONE)],
)
def test_session_epochs(world: BrokerWorld, epoch: int, code: int) -> None:
    """
    A session's epoch grows by one with each request; -1 ends it.  Without a session, the error says so.
    """
    consumer = member(world)
    consumer.receive()

    assert code == consumer.client.ask(consumer.fetch_request(share_session_epoch=epoch)).error_code
    unknown = ShareMember(world, "unknown")
    answer = unknown.client.ask(unknown.fetch_request(share_session_epoch=1))
    assert errors.SHARE_SESSION_NOT_FOUND == answer.error_code


def test_a_group_that_sends_dead_letters_back_cannot_be_read(world: BrokerWorld) -> None:
    member = ShareMember(world, group="__redrive")
    answer = member.client.ask(member.fetch_request())
    assert errors.INVALID_GROUP_ID == answer.error_code
    assert "use another group id" in answer.error_message


def test_too_many_sessions() -> None:
    """
    A session beyond group.share.max.share.sessions is refused, but only when the fetch's wait is over.
    """
    world = BrokerWorld({**STATIC, "group.share.max.share.sessions": "1"})
    world.create("jobs")
    member(world, "first").receive()
    second = member(world, "second")

    sent = waiting(second)
    world.pass_time(WAIT_MS)

    answer = second.client.answer(*sent)
    assert errors.SHARE_SESSION_LIMIT_REACHED == answer.error_code
    assert "group.share.max.share.sessions" in answer.error_message


def test_unknown_partitions_are_refused(world: BrokerWorld) -> None:
    """
    A partition that does not exist, and a topic id that is not known, get an error at once, and others their records.
    """
    consumer = member(world)
    world.produce("jobs", b"a")
    (topic_id,) = consumer.assigned
    topics = [
        share_fetch.Request.Topic(
            topic_id=one,
            partitions=[
                share_fetch.Request.Topic.Partition(partition_index=number, acknowledgement_batches=())
                for number in numbers
            ],
        )
        for one, numbers in ((topic_id, (0, 9)), (b"x" * 16, (0,)))
    ]

    answer = consumer.fetch(topics=topics, max_wait_ms=WAIT_MS)

    codes = {(it.topic_id, part.partition_index): part.error_code for it in answer.responses for part in it.partitions}
    assert errors.UNKNOWN_TOPIC_OR_PARTITION == codes[topic_id, 9]
    assert errors.UNKNOWN_TOPIC_ID == codes[b"x" * 16, 0]


def test_state_survives_a_restart(world: BrokerWorld) -> None:
    """
    After a restart, accepted records are not delivered, and a record that was released keeps its delivery count.
    """
    consumer = member(world)
    world.produce("jobs", b"a", b"b", b"c")
    consumer.receive(max_wait_ms=WAIT_MS)
    consumer.acknowledge(0, 0)
    consumer.acknowledge(1, 1, Acknowledgement.RELEASE)

    again = world.restarted()
    consumer = member(again)

    assert [Got(1, b"b", 2), Got(2, b"c", 1)] == consumer.receive(max_wait_ms=WAIT_MS)


def test_a_deleted_topic_ends_the_wait(world: BrokerWorld) -> None:
    """
    A fetch that waits for records is answered with an error when its topic is deleted.
    """
    consumer = member(world)
    consumer.receive()
    sent = waiting(consumer)
    world.broker.controller.submit(DeleteTopics(topics=("jobs",)))
    world.stabilize()

    answer = consumer.client.answer(*sent)

    assert answer is not None, "the fetch still waits"
    assert errors.UNKNOWN_TOPIC_ID == answer.responses[0].partitions[0].error_code


def test_a_recreated_topic_begins_anew(world: BrokerWorld) -> None:
    """
    The records of a topic that is created again have neither the delivery counts nor the locks of those that had their
    offsets before, and none of them counts as accepted.
    """
    consumer = member(world)
    world.produce("jobs", b"old a", b"old b", b"old c")
    consumer.receive(max_wait_ms=WAIT_MS)
    assert errors.NONE == consumer.acknowledge(0, 0)
    assert errors.NONE == consumer.acknowledge(1, 1, Acknowledgement.RELEASE)
    (old_id,) = consumer.assigned
    world.broker.controller.submit(DeleteTopics(topics=("jobs",)))
    world.stabilize()
    world.create("jobs")
    new_id = world.partition("jobs").log.topic_id

    while [new_id] != [*consumer.assigned]:
        world.pass_time(1_000)
        consumer.heartbeat()
    consumer.session_epoch = 0
    world.produce("jobs", b"a", b"b", b"c")

    assert new_id != old_id
    assert [Got(0, b"a", 1), Got(1, b"b", 1), Got(2, b"c", 1)] == consumer.receive(max_wait_ms=WAIT_MS)
    assert [0] == [share.start for share in shares(world).by_number.values()]
    assert [new_id] == [led.key.topic_id for led in world.broker.shares.led_shares]
