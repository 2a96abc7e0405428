"""What waits in timer topics, in a scrape."""

from math import inf

from tests.unit.app.test_observed import samples
from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.timers.timer_topic import TOPIC, create, delay, send
from tidemill.app.timer_gauges import timer_gauges
from tidemill.telemetry.topic_counters import OTHER

HOUR_MS = 3_600_000


def test_what_waits_is_measured() -> None:
    """
    Other kinds of topics have no row, and nothing that waits is due never.
    """
    world = BrokerWorld()
    world.create("log")
    create(world)
    (empty,) = timer_gauges(world.broker, 9)
    assert (TOPIC, 0, 0, inf) == empty[:4]

    began_ms = world.clock.now_ms
    send(world, (b"a", delay(2 * HOUR_MS)), (b"b", delay(HOUR_MS)))

    (row,) = timer_gauges(world.broker, 9)
    assert (TOPIC, 2) == (row.topic, row.waiting)
    assert row.waiting_bytes > 2
    assert 0 <= row.next_due * 1_000 - began_ms - HOUR_MS < 1_000
    assert 0 == row.clock_behind


def test_further_topics_share_a_row() -> None:
    world = BrokerWorld()
    create(world)
    world.create("another", tidemill_kind="timer")
    send(world, (b"a", delay(HOUR_MS)))

    assert [(TOPIC, 1), (OTHER, 0)] == [(row.topic, row.waiting) for row in timer_gauges(world.broker, 1)]
    assert [(OTHER, 1)] == [(row.topic, row.waiting) for row in timer_gauges(world.broker, 0)]


def test_a_scrape_has_what_waits_and_what_was_released() -> None:
    world = BrokerWorld()
    create(world)
    send(world, (b"a", delay(HOUR_MS)), (b"b", delay(5)))
    world.pass_time(1_000)

    found = samples(world)

    assert 1 == float(found[f'tidemill_timer_waiting_records{{topic="{TOPIC}"}}'])
    for name in ("records_released_total", "lateness_seconds_count"):
        assert 1 == sum(float(value) for key, value in found.items() if key.startswith(f"tidemill_timer_{name}"))
