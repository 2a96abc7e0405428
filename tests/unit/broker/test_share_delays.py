"""Back-off of share groups on a whole broker: the delay is in the log, and restarts and new settings keep it."""

from collections.abc import Callable

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.share_member import STATIC, WAIT_MS, Got, ShareMember, acquired_records, configure_group
from tidemill.broker.shares.share_openings import shares_of
from tidemill.model import errors
from tidemill.share.acknowledgement import Acknowledgement

DELAY_MS = 60_000
LOCK_MS = 5_000
RELEASE = Acknowledgement.RELEASE


@pytest.fixture
def world() -> BrokerWorld:
    made = BrokerWorld(STATIC)
    made.create("jobs")
    set_delay(made, DELAY_MS)
    return made


def set_delay(world: BrokerWorld, first_ms: int) -> None:
    policy = f'{{"kind": "constant", "first": {first_ms}}}'
    configure_group(
        world,
        share_auto_offset_reset="earliest",
        share_record_lock_duration_ms=str(LOCK_MS),
        tidemill_share_backoff=policy,
    )


def member(world: BrokerWorld, name: str = "m") -> ShareMember:
    joined = ShareMember(world, name)
    joined.join("jobs")
    return joined


def release_times(world: BrokerWorld) -> list[int]:
    (share,) = shares_of(world.partition("jobs")).by_number.values()
    return [run.value.release_at for run in share.runs]


def released(consumer: ShareMember) -> None:
    assert errors.NONE == consumer.acknowledge(0, 0, RELEASE)


def expired(consumer: ShareMember) -> None:
    for _ in range(LOCK_MS // 400 + 1):  # at most 500 ms between two ticks count
        consumer.world.pass_time(400)


@pytest.mark.parametrize("fail", [released, expired])
def test_a_failed_record_waits(world: BrokerWorld, fail: Callable[[ShareMember], None]) -> None:
    """
    After a release or an expired lock, a record waits for its delay, while records behind it are delivered.  A fetch
    that waits gets it when the delay has ended.
    """
    consumer = member(world)
    world.produce("jobs", b"a")
    consumer.receive(max_wait_ms=WAIT_MS)
    world.produce("jobs", b"b")

    fail(consumer)

    assert [Got(1, b"b", 1)] == consumer.receive()
    assert errors.NONE == consumer.acknowledge(1, 1)
    (due,) = filter(None, release_times(world))
    sent = consumer.client.send(consumer.fetch_request(max_wait_ms=2 * DELAY_MS))
    world.pass_time(due - world.clock.now_ms - 1)
    assert consumer.client.answer(*sent) is None
    world.pass_time(1)
    assert [Got(0, b"a", 2)] == acquired_records(consumer.client.answer(*sent))


def test_a_renewal_does_not_hide_that_a_delay_has_ended(world: BrokerWorld) -> None:
    """
    With an order by key, a renewal extends the look-ahead, and so notices that a delay has ended.  A fetch that waits
    gets the delayed record nevertheless, and not only when something else wakes it.
    """
    set_delay(world, 1_000)
    configure_group(world, tidemill_share_order="key")
    consumer, other = member(world), member(world, "other")
    world.produce("jobs", b"a")
    consumer.receive(max_wait_ms=WAIT_MS)
    world.produce("jobs", b"b")
    assert [Got(1, b"b", 1)] == other.receive(max_wait_ms=WAIT_MS)
    assert errors.NONE == consumer.acknowledge(0, 0, RELEASE)
    (due,) = filter(None, release_times(world))
    sent = consumer.client.send(consumer.fetch_request(max_wait_ms=2 * DELAY_MS))
    world.stabilize()

    world.clock.now_ms = due
    assert errors.NONE == other.acknowledge(1, 1, Acknowledgement.RENEW)
    world.pass_time(1)

    assert [Got(0, b"a", 2)] == acquired_records(consumer.client.answer(*sent))


def test_a_restart_keeps_delays(world: BrokerWorld) -> None:
    """The broker that leads after a restart does not deliver a delayed record early, and delivers it in time."""
    consumer = member(world)
    world.produce("jobs", b"a")
    consumer.receive(max_wait_ms=WAIT_MS)
    released(consumer)
    (due,) = release_times(world)

    again = world.restarted()
    consumer = member(again)

    assert [due] == release_times(again)
    again.pass_time(due - again.clock.now_ms - 1)
    assert [] == consumer.receive(max_wait_ms=0)
    again.pass_time(1)
    assert [Got(0, b"a", 2)] == consumer.receive()


def test_a_new_policy_applies_to_the_next_release(world: BrokerWorld) -> None:
    """
    A changed policy, or a removed one, applies to decisions that follow; delayed records stay delayed (NATS #5526).
    """
    consumer = member(world)
    world.produce("jobs", b"a", b"b")
    consumer.receive(max_wait_ms=WAIT_MS)
    released(consumer)
    began = world.clock.now_ms

    set_delay(world, 1_000)
    assert errors.NONE == consumer.acknowledge(1, 1, RELEASE)

    assert [began + DELAY_MS, began + 1_000] == release_times(world)
    world.pass_time(1_000)
    assert [Got(1, b"b", 2)] == consumer.receive()


def test_a_raised_limit_wakes_a_fetch(world: BrokerWorld) -> None:
    """A fetch that waits because of the limit on locks is answered when the limit is raised."""
    configure_group(world, share_partition_max_record_locks="100")
    first, second = member(world, "first"), member(world, "second")
    world.produce("jobs", *[b"x"] * 150)
    assert 100 == len(first.receive(max_wait_ms=WAIT_MS))
    second.receive()
    sent = second.client.send(second.fetch_request(max_wait_ms=DELAY_MS))
    world.stabilize()
    assert second.client.answer(*sent) is None

    configure_group(world, share_partition_max_record_locks="200")

    assert 50 == len(acquired_records(second.client.answer(*sent)))


def test_a_clock_that_is_behind_the_log_shortens_no_delay(world: BrokerWorld) -> None:
    """
    A leader whose clock is behind that of the leader before it counts the delay from the last append, so that the
    record is not delivered early.
    """
    consumer = member(world)
    world.produce("jobs", b"a")
    world.clock.wrong_ms = -10_000
    consumer.receive(max_wait_ms=WAIT_MS)

    released(consumer)

    assert [world.clock.now_ms + DELAY_MS] == release_times(world)
