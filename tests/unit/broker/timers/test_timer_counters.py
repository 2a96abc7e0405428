"""What happens to the records of a timer topic is counted on the leader."""

from itertools import accumulate

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.timers.timer_topic import TOPIC, create, delay, due_at, named, resolve, send
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE, Selection
from tidemill.telemetry.timer_counters import TimerCounters


@pytest.fixture
def world() -> BrokerWorld:
    world = BrokerWorld()
    create(world)
    return world


def counters(world: BrokerWorld) -> TimerCounters:
    return world.broker.metrics.by_timer_topic.of(TOPIC)


def counts(world: BrokerWorld) -> tuple[int, ...]:
    """Return how many records were released, cancelled and replaced, and how many batches were refused."""
    found = counters(world)
    return found.records_released, found.records_cancelled, found.records_replaced, found.batches_refused


def test_records_are_counted_when_their_fate_is_committed(world: BrokerWorld) -> None:
    """
    What is rescheduled, and what a trial finds, is not counted.
    """
    send(world, (b"a", delay(100)), (b"b", named("b", delay("1h"))), (b"c", named("c", delay("1h"))))
    send(world, (b"new", named("b", delay("1h"))))
    assert (0, 0, 1, 0) == counts(world)
    world.pass_time(1_000)
    assert (1, 0, 1, 0) == counts(world)

    resolve(world, operation=CANCEL, selection=Selection(), is_trial=True)
    resolve(world, operation=RESCHEDULE, timer_ids=[b"b"], due_ms=world.clock.now_ms + 7_200_000)
    assert (1, 0, 1, 0) == counts(world)
    resolve(world, operation=CANCEL, timer_ids=[b"b", b"none"])
    resolve(world, operation=CANCEL, selection=Selection(key=b"k"))
    assert (1, 2, 1, 0) == counts(world)


def test_a_batch_with_a_bad_time_is_counted_as_refused(world: BrokerWorld) -> None:
    assert send(world, (b"a", delay("soon"))).error_code

    assert (0, 0, 0, 1) == counts(world)


def test_lateness_is_measured_from_the_due_time(world: BrokerWorld) -> None:
    """
    A record whose time was past when it arrived is as late as that.
    """
    send(world, (b"past", due_at(world.clock.now_ms - 7_000)), (b"soon", delay(100)))
    world.pass_time(1_000)

    found = counters(world).lateness_seconds
    upto = dict(zip(found.bounds, accumulate(found.counts), strict=False))
    assert (1, 1, 2, 2) == (upto[500], upto[5_000], upto[10_000], sum(found.counts))
    assert 7_000 <= found.sum < 8_000
