"""ShareFetch from shares with an order, one active member, or priorities."""

from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.lone_consumer import ResolvesShares, received
from tests.unit.broker.share_member import STATIC, WAIT_MS, Got, ShareMember, acquired_records, configure_group
from tidemill.batches.builder import build_batch
from tidemill.broker.shares import look_ahead_reader
from tidemill.model import errors
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.wire.messages import produce

LOCK_MS = 10_000


@pytest.fixture
def world() -> BrokerWorld:
    made = BrokerWorld(STATIC)
    made.create("jobs")
    configure_group(made, share_auto_offset_reset="earliest", share_record_lock_duration_ms=str(LOCK_MS))
    return made


def member(world: BrokerWorld, name: str = "m") -> ShareMember:
    joined = ShareMember(world, name)
    joined.join("jobs")
    return joined


def values(got: list[Got]) -> list[bytes | None]:
    return [one.value for one in got]


def receive(consumer: ShareMember, **fields: Any) -> list[bytes | None]:
    """Fetch with a wait that is long enough to open a share and the batches in its look-ahead."""
    return values(consumer.receive(**{"max_wait_ms": WAIT_MS, **fields}))


def receive_nothing(consumer: ShareMember) -> None:
    """Check that a fetch is answered without records and without an error, and only when its wait is over."""
    sent = waiting(consumer)
    consumer.world.pass_time(WAIT_MS)
    assert [] == acquired_records(consumer.client.answer(*sent))


def waiting(consumer: ShareMember, **fields: int) -> Any:
    sent = consumer.client.send(consumer.fetch_request(max_wait_ms=WAIT_MS, **fields))
    consumer.session_epoch += 1
    consumer.world.stabilize()
    assert consumer.client.answer(*sent) is None, "there was something to fetch"
    return sent


def pass_locks(world: BrokerWorld, duration_ms: int = LOCK_MS) -> None:
    """Let time pass for locks, of which at most 500 ms count between two ticks."""
    for _ in range(duration_ms // 400 + 1):
        world.pass_time(400)


def test_a_hot_key_does_not_stop_others(world: BrokerWorld) -> None:
    """
    One record of a key is held at a time, by any member, and records of other keys and without a key are delivered
    meanwhile.  The next record of the key follows when the first one's acceptance has committed.
    """
    configure_group(world, tidemill_share_order="key")
    slow, fast = member(world, "slow"), member(world, "fast")
    world.produce("jobs", b"h1", b"h2", b"a1", b"n1", keys=[b"hot", b"hot", b"a", None])
    world.produce("jobs", b"h3", b"a2", b"n2", keys=[b"hot", b"a", None])

    assert [b"h1"] == receive(slow, max_records=1, share_acquire_mode=1)
    assert [b"a1", b"n1", b"n2"] == receive(fast)
    receive_nothing(fast)
    assert errors.NONE == fast.acknowledge(2, 3)
    assert [b"a2"] == receive(fast)
    sent = waiting(fast)
    assert errors.NONE == slow.acknowledge(0, 0)

    assert [b"h2"] == values(acquired_records(fast.client.answer(*sent)))


def test_a_rejected_or_expired_record(world: BrokerWorld) -> None:
    """
    An expired record goes first again; a rejected one lets the next one of its key follow.
    """
    configure_group(world, tidemill_share_order="key")
    consumer, other = member(world), member(world, "other")
    world.produce("jobs", b"1", b"2", keys=[b"k", b"k"])
    assert [b"1"] == receive(consumer)
    pass_locks(world)

    assert [Got(0, b"1", 2)] == other.receive(max_wait_ms=WAIT_MS)
    assert errors.NONE == other.acknowledge(0, 0, Acknowledgement.REJECT)
    assert [b"2"] == receive(other)


def test_a_delayed_record_at_the_start(world: BrokerWorld) -> None:
    """
    A delayed record blocks its key only, for all its delay.
    """
    back_off = '{"kind": "constant", "first": 3000}'
    configure_group(world, tidemill_share_order="key", tidemill_share_backoff=back_off)
    consumer = member(world)
    world.produce("jobs", b"h1", b"h2", b"a1", keys=[b"hot", b"hot", b"a"])
    assert [b"h1", b"a1"] == receive(consumer)
    assert errors.NONE == consumer.acknowledge(0, 0, Acknowledgement.RELEASE)
    assert errors.NONE == consumer.acknowledge(2, 2)
    world.produce("jobs", b"a2", keys=[b"a"])

    assert [b"a2"] == receive(consumer)
    receive_nothing(consumer)
    world.pass_time(3_000)
    assert [b"h1"] == receive(consumer)


def test_the_look_ahead_is_opened_in_slices(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Records far behind a hot key are delivered, up to the look-ahead, and the rest when the key has been worked off.
    """
    monkeypatch.setattr(look_ahead_reader, "SLICE_BYTES", 1)
    configure_group(world, tidemill_share_order="key", tidemill_share_lookahead="100")
    consumer = member(world)
    for at in range(15):
        world.produce("jobs", *[b"%d" % (10 * at + it) for it in range(10)], keys=[b"hot"] * 9 + [b"%d" % at])

    got = receive(consumer)
    world.stabilize()
    while more := receive(consumer, max_wait_ms=0):
        got += more
        world.stabilize()

    assert [b"0", *[b"%d" % (10 * at + 9) for at in range(11)]] == got  # offset 1 is available: 101 is known
    for offset in range(8):
        assert errors.NONE == consumer.acknowledge(offset, offset)
        assert [b"%d" % (offset + 1)] == receive(consumer, max_records=1, share_acquire_mode=1)
    assert errors.NONE == consumer.acknowledge(8, 8)
    assert [b"10"] == receive(consumer)
    assert [b"119"] == receive(consumer)  # offset 11 is available: 111 is known, and the rest of its batch


def test_the_index_is_rebuilt_after_a_restart(world: BrokerWorld) -> None:
    """
    The next leader knows which records block others, and which are finished.
    """
    configure_group(world, tidemill_share_order="key")
    consumer = member(world)
    world.produce("jobs", b"a1", b"b1", b"a2", b"b2", keys=[b"a", b"b", b"a", b"b"])
    assert [b"a1", b"b1"] == receive(consumer)
    assert errors.NONE == consumer.acknowledge(1, 1)

    again = world.restarted()

    assert [b"a1", b"b2"] == receive(member(again))


def test_the_order_of_a_partition(world: BrokerWorld) -> None:
    """
    One batch is in flight: the next one follows when every record of it is finished, for every member.
    """
    configure_group(world, tidemill_share_order="partition")
    first, second = member(world, "first"), member(world, "second")
    world.produce("jobs", b"1", b"2")
    world.produce("jobs", b"3")

    assert [b"1", b"2"] == receive(first)
    assert errors.NONE == first.acknowledge(0, 0)
    receive_nothing(second)
    assert errors.NONE == first.acknowledge(1, 1, Acknowledgement.RELEASE)
    assert [b"2"] == receive(second)
    receive_nothing(first)
    assert errors.NONE == second.acknowledge(1, 1)
    assert [b"3"] == receive(first)


def test_priorities(world: BrokerWorld) -> None:
    """
    Records with a higher priority are acquired first, even if they are in other batches; the response has them in the
    order of their offsets.
    """
    configure_group(world, tidemill_share_priority="true")
    consumer = member(world)
    for value, priority in ((b"a", b"4"), (b"b", b"9"), (b"c", None), (b"d", b"9"), (b"e", b"0")):
        headers = () if priority is None else (("tidemill-priority", priority),)
        batch = build_batch([(None, value, headers, world.clock.now_ms)])
        data = produce.Request.Topic.Partition(index=0, records=memoryview(batch))
        topic = produce.Request.Topic(name="jobs", partition_data=[data])
        request = produce.Request(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=[topic])
        world.ask(request, version=12)

    assert [b"b"] == receive(consumer, max_records=1)
    assert [b"a", b"d"] == receive(consumer, max_records=2)
    assert [b"c", b"e"] == receive(consumer)


def test_an_exclusive_share_has_one_member(world: BrokerWorld) -> None:
    """
    Other members wait, without records and without an error, until the active one closes its session.
    """
    configure_group(world, tidemill_share_mode="exclusive")
    active, other = member(world, "active"), member(world, "other")
    world.produce("jobs", b"1", b"2")
    assert [b"1"] == receive(active, max_records=1, share_acquire_mode=1)
    receive_nothing(other)
    assert errors.NONE == active.acknowledge(0, 0)
    receive_nothing(other)
    sent = waiting(other)

    active.disconnect()

    assert [b"2"] == values(acquired_records(other.client.answer(*sent)))


def test_a_member_that_does_not_fetch_is_replaced(world: BrokerWorld) -> None:
    """
    An active member that holds nothing and sends no fetch does not stop the others for longer than a lock duration; its
    session stays open.
    """
    configure_group(world, tidemill_share_mode="exclusive")
    silent, other = member(world, "silent"), member(world, "other")
    world.produce("jobs", b"1")
    assert [b"1"] == receive(silent)
    assert errors.NONE == silent.acknowledge(0, 0)
    world.produce("jobs", b"2")
    receive_nothing(other)
    pass_locks(world)

    assert [b"2"] == receive(other)
    assert errors.NONE == other.acknowledge(1, 1)
    world.produce("jobs", b"3")
    receive_nothing(silent)


def test_a_member_that_lets_a_lock_expire_is_replaced(world: BrokerWorld) -> None:
    """
    The record goes to another member, which then is the active one.
    """
    configure_group(world, tidemill_share_mode="exclusive")
    slow, other = member(world, "slow"), member(world, "other")
    world.produce("jobs", b"1", b"2")
    assert [b"1"] == receive(slow, max_records=1, share_acquire_mode=1)
    receive_nothing(other)
    pass_locks(world)

    assert [b"1"] == receive(other, max_records=1, share_acquire_mode=1)
    receive_nothing(slow)


def test_a_new_leader_waits_for_the_holders_of_the_former_term(world: BrokerWorld) -> None:
    """
    With tidemill.share.failover.wait, a restarted broker delivers nothing for one lock duration, and then all.
    """
    configure_group(world, tidemill_share_order="key", tidemill_share_failover_wait="true")
    consumer = member(world)
    pass_locks(world)
    world.produce("jobs", b"1", keys=[b"k"])
    assert [b"1"] == receive(consumer)

    again = world.restarted()
    consumer = member(again)
    pass_locks(again, LOCK_MS // 2)
    receive_nothing(consumer)
    pass_locks(again, LOCK_MS)

    assert [b"1"] == receive(consumer)


def test_a_receive_says_how_long_a_new_leader_waits(world: BrokerWorld) -> None:
    """
    A consumer that does not wait can tell records that it gets later from records that others hold.
    """
    configure_group(world, tidemill_share_order="key", tidemill_share_failover_wait="true")
    world.produce("jobs", b"1", keys=[b"k"])
    again = world.restarted()
    consumer = ResolvesShares(again, "w")
    again.client.ask(consumer.receive_request(max_records=0))

    first = withheld(consumer)
    again.pass_time(400)
    second = withheld(consumer)
    pass_locks(again)

    assert 0 < second < first <= LOCK_MS
    assert [b"1"] == values(consumer.receive())
    assert 0 == withheld(ResolvesShares(again, "other"))


def test_a_receive_says_that_the_look_ahead_is_being_opened(world: BrokerWorld) -> None:
    configure_group(world, tidemill_share_order="key")
    world.produce("jobs", b"1", keys=[b"k"])
    consumer = ResolvesShares(world, "w")
    world.reads = False
    world.client.ask(consumer.receive_request(max_records=0))

    assert 1 == withheld(consumer)
    world.reads = True
    world.stabilize()

    assert [b"1"] == values(consumer.receive(max_wait_ms=0))
    assert 0 == withheld(ResolvesShares(world, "other"))


def withheld(consumer: ResolvesShares) -> int:
    """Return for how many milliseconds the leader withholds records from a consumer, which gets none now."""
    response = consumer.client.ask(consumer.receive_request(max_wait_ms=0))
    assert [] == received(response)
    return int(response.withheld_ms)


def test_the_order_may_change(world: BrokerWorld) -> None:
    """
    What is held when an order is set finishes first; then the order holds.
    """
    consumer, other = member(world), member(world, "other")
    world.produce("jobs", b"1", b"2", b"3", keys=[b"k", b"k", b"k"])
    assert [b"1"] == receive(consumer, max_records=1, share_acquire_mode=1)
    configure_group(world, tidemill_share_order="key")

    receive_nothing(other)
    assert errors.NONE == consumer.acknowledge(0, 0)
    assert [b"2"] == receive(other)
    receive_nothing(consumer)
    configure_group(world, tidemill_share_order="none")
    receive_nothing(consumer)
    assert errors.NONE == other.acknowledge(1, 1)
    assert [b"3"] == receive(consumer)


def test_consumers_without_a_session(world: BrokerWorld) -> None:
    """
    Order and mode hold for consumers without a session, too: what they hold comes again, and nothing more.
    """
    configure_group(world, tidemill_share_order="key", tidemill_share_mode="exclusive")
    consumer, other = ResolvesShares(world, "w"), ResolvesShares(world, "other")
    world.produce("jobs", b"h1", b"h2", b"a1", keys=[b"hot", b"hot", b"a"])
    held = consumer.receive(max_wait_ms=WAIT_MS)

    assert [b"h1", b"a1"] == values(held)
    assert held == consumer.receive()
    assert [] == other.receive(max_wait_ms=0)
    assert (1, 0, 0) == consumer.counts((0, 0, Acknowledgement.ACCEPT))
    assert (1, 0, 0) == consumer.counts((2, 2, Acknowledgement.ACCEPT))
    assert [] == other.receive(max_wait_ms=0)
    assert [b"h2"] == values(consumer.receive())
