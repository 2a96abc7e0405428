"""The state of queues in a scrape."""

import pytest

from tests.unit.app.test_observed import samples
from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.share_member import STATIC, WAIT_MS, ShareMember, configure_group
from tidemill.app import queue_gauges as gauges
from tidemill.app.queue_gauges import queue_gauges
from tidemill.broker.shares.share_openings import shares_of
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.interval_map import Interval
from tidemill.share.record_status import RecordState, RecordStatus
from tidemill.share.share import Share
from tidemill.telemetry.metrics import QueueGauges

WAITING = RecordStatus(RecordState.AVAILABLE, 1, release_at=1 << 50)
DEAD = RecordStatus(RecordState.ARCHIVING, 1)


@pytest.fixture
def world() -> BrokerWorld:
    """Return a broker with ten records in each of two topics."""
    world = BrokerWorld(STATIC)
    for topic in ("jobs", "mails"):
        world.create(topic)
        world.produce(topic, *[b"value"] * 10)
    return world


def consumer_of(world: BrokerWorld, topic: str = "jobs", group: str = "g") -> ShareMember:
    configure_group(world, group, share_auto_offset_reset="earliest")
    consumer = ShareMember(world, group=group)
    consumer.join(topic)
    return consumer


def share_of(world: BrokerWorld, topic: str = "jobs", group: str = "g") -> Share:
    share = shares_of(world.partition(topic)).of_group(group)
    assert share is not None
    return share


def test_the_state_of_a_queue_is_measured(world: BrokerWorld) -> None:
    """
    Records that are held, accepted, delayed or dead are counted from the leases and the durable state.
    """
    consumer = consumer_of(world)
    assert 4 == len(consumer.receive(max_wait_ms=WAIT_MS, max_records=4, share_acquire_mode=1))
    consumer.acknowledge(1, 1)
    share = share_of(world)
    share.set_runs([Interval(5, 7, WAITING), Interval(9, 10, DEAD)])
    share.expired_unread = 6

    assert [
        QueueGauges(
            group="g",
            topic="jobs",
            available=3,
            held=3,
            delayed=2,
            dead_waiting=1,
            expired_unread=6,
            tracked_runs=3,
        )
    ] == queue_gauges(world.broker, 10).rows
    shown = samples(world)
    assert "6.0" == shown['tidemill_queue_expired_unread_records{group="g",topic="jobs"}']
    assert "3.0" == shown['tidemill_queue_tracked_runs{group="g",topic="jobs"}']
    assert ["1.0", "1.0", "0.0"] == [
        shown[f"tidemill_{name}"] for name in ("shares", "share_sessions", "share_fetches_waiting")
    ]


def test_a_queue_that_no_consumer_reads_is_measured(world: BrokerWorld) -> None:
    """
    After a restart no consumer holds records, but what retention removes still counts.
    """
    consumer = consumer_of(world)
    consumer.receive(max_wait_ms=WAIT_MS)
    consumer.acknowledge(0, 3)

    again = world.restarted()

    (row,) = queue_gauges(again.broker, 10).rows
    assert (6, 0) == (row.available, row.held)


def test_the_queues_behind_the_largest_are_summed_up(world: BrokerWorld) -> None:
    """
    The queues with the most available records have rows of their own, and the others a sum.  Without rows, nothing is
    measured, and the shares are counted as unmeasured.
    """
    for topic, group, accepted in (("jobs", "a", 4), ("jobs", "b", 5), ("mails", "c", 0)):
        consumer = consumer_of(world, topic, group)
        consumer.receive(max_wait_ms=WAIT_MS, max_records=max(accepted, 1), share_acquire_mode=1)
        if accepted:
            consumer.acknowledge(0, accepted - 1, Acknowledgement.ACCEPT)

    rows = queue_gauges(world.broker, 1).rows

    assert [("c", "mails", 9, 1), ("(other)", "(other)", 11, 0)] == [
        (row.group, row.topic, row.available, row.held) for row in rows
    ]
    assert ([], 3, 3) == queue_gauges(world.broker, 0)


def test_a_scrape_examines_a_bounded_number_of_runs(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A share with more runs than a scrape may examine is counted as unmeasured.
    """
    consumer_of(world).receive(max_wait_ms=WAIT_MS)
    share_of(world).set_runs([Interval(5, 6, WAITING), Interval(7, 8, WAITING)])
    monkeypatch.setattr(gauges, "RUNS_MAX", 1)

    assert ([], 1, 1) == queue_gauges(world.broker, 10)
