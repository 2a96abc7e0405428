"""Records of share groups that have outlived their time to live, on a whole broker."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.share_member import STATIC, WAIT_MS, Got, ShareMember, configure_group
from tidemill.batches.builder import build_batch
from tidemill.batches.records import Record
from tidemill.broker.shares.share_openings import shares_of
from tidemill.share.record_status import Reason, RecordState, Run
from tidemill.wire.messages import produce

TTL_MS = 60_000


@pytest.fixture
def world() -> BrokerWorld:
    made = BrokerWorld(STATIC)
    made.create("jobs", tidemill_ttl_headers="true")
    configure_group(made, share_auto_offset_reset="earliest")
    return made


def member(world: BrokerWorld) -> ShareMember:
    joined = ShareMember(world)
    joined.join("jobs")
    return joined


def produce_with_ttl(world: BrokerWorld, *ttls: bytes | None) -> None:
    """Produce one batch of records, each with a time to live, or without one."""
    records = [Record(None, b"x", [] if ttl is None else [("tidemill-ttl", ttl)], world.clock.now_ms) for ttl in ttls]
    data = produce.Request.Topic.Partition(index=0, records=memoryview(build_batch(records)))
    topic = produce.Request.Topic(name="jobs", partition_data=[data])
    request = produce.Request(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=[topic])
    assert not world.ask(request, version=12).responses[0].partition_responses[0].error_code


def runs(world: BrokerWorld) -> list[Run]:
    (share,) = shares_of(world.partition("jobs")).by_number.values()
    return list(share.runs)


def test_a_group_gets_no_record_that_is_too_old(world: BrokerWorld) -> None:
    """
    A record that is older than the group permits, by its timestamp, is finished instead of delivered, and a younger one
    behind it is delivered, even in the same batch.
    """
    configure_group(world, tidemill_share_ttl_ms=str(TTL_MS))
    consumer = member(world)
    now = world.clock.now_ms
    world.produce("jobs", b"old", b"old", timestamp_ms=now - TTL_MS)
    world.produce("jobs", b"old", b"young", timestamp_ms=[now - TTL_MS, now])

    assert [Got(3, b"young", 1)] == consumer.receive(max_wait_ms=WAIT_MS)

    (share,) = shares_of(world.partition("jobs")).by_number.values()
    assert 3 == share.start


def test_a_released_record_may_expire(world: BrokerWorld) -> None:
    """A record that was delivered in vain expires like others, and its delivery count and the reason are kept."""
    configure_group(world, tidemill_share_ttl_ms=str(TTL_MS))
    consumer = member(world)
    world.produce("jobs", b"a", b"b")
    consumer.receive(max_wait_ms=WAIT_MS)
    assert not consumer.acknowledge(1, 1, 2)
    world.pass_time(TTL_MS)

    assert [] == consumer.receive()
    world.stabilize()

    assert [(1, 2, RecordState.ARCHIVED, 1, Reason.EXPIRED)] == [
        (it.first, it.end, it.value.state, it.value.delivery_count, it.value.reason) for it in runs(world)
    ]


def test_records_may_carry_their_own_time_to_live(world: BrokerWorld) -> None:
    """The header tidemill-ttl ends single records of a batch, in reader threads."""
    consumer = member(world)
    produce_with_ttl(world, None, b"1000", b"5000", b"1000", None)
    world.pass_time(1_000)
    world.reads = False
    sent = consumer.client.send(consumer.fetch_request(max_wait_ms=WAIT_MS))
    consumer.session_epoch += 1
    world.stabilize()
    assert consumer.client.answer(*sent) is None

    world.reads = True
    world.stabilize()

    answer = consumer.client.answer(*sent)
    acquired = answer.responses[0].partitions[0].acquired_records
    assert [(0, 0), (2, 2), (4, 4)] == [(it.first_offset, it.last_offset) for it in acquired]


def test_headers_have_no_effect_without_the_key_of_the_topic() -> None:
    """Unless the topic has tidemill.ttl.headers=true, the header is data like any other."""
    world = BrokerWorld(STATIC)
    world.create("jobs")
    configure_group(world, share_auto_offset_reset="earliest")
    consumer = member(world)
    produce_with_ttl(world, b"1")
    world.pass_time(1_000)

    assert [Got(0, b"x", 1)] == consumer.receive(max_wait_ms=WAIT_MS)


def test_a_backlog_of_expired_records_ends_with_one_fetch(world: BrokerWorld) -> None:
    """A fetch that waits passes expired records until it gets one that has not expired."""
    configure_group(world, tidemill_share_ttl_ms=str(TTL_MS))
    consumer = member(world)
    old = world.clock.now_ms - TTL_MS
    for _ in range(40):
        world.produce("jobs", *[b"x" * 1_000] * 20, timestamp_ms=old)
    world.produce("jobs", b"young")

    assert [Got(800, b"young", 1)] == consumer.receive(max_wait_ms=WAIT_MS)


def test_a_client_may_disconnect_while_batches_are_opened(world: BrokerWorld) -> None:
    """The fetch of the next member gets the records."""
    consumer = member(world)
    produce_with_ttl(world, b"1000000")
    world.reads = False
    consumer.client.send(consumer.fetch_request(max_wait_ms=WAIT_MS))
    world.stabilize()

    consumer.disconnect()
    world.reads = True
    world.stabilize()

    assert [Got(0, b"x", 1)] == member(world).receive(max_wait_ms=WAIT_MS)
