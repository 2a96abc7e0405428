"""The work of one turn of the event loop, and of one tick, is bounded."""

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.timers.timer_topic import TOPIC, create, due_at, request
from tidemill.batches.builder import build_batch
from tidemill.broker.timers import due_heap
from tidemill.broker.timers.led_timers import LedTimers
from tidemill.broker.timers.tick_rounds import AT_ONCE_MIN, MOVED_MS
from tidemill.broker.timers.timer_host import TimerHost
from tidemill.shard.shard import Shard
from tidemill.timer.due_row import DueRow
from tidemill.timer.release_batch import Waiting

PARTITIONS, RECORDS, TURN_RECORDS_MAX = 3, 25, 10
TICK_MS = 250


def test_a_turn_releases_a_bounded_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Many records are due in one millisecond, in several partitions: all come, and between two turns the broker serves
    other requests.
    """
    world = BrokerWorld()
    create(world, partitions=PARTITIONS)
    due_ms = world.clock.now_ms + 1_000
    for partition in range(PARTITIONS):
        records = [(b"k", b"%d" % number, due_at(due_ms), world.clock.now_ms) for number in range(RECORDS)]
        produced = request(build_batch(records))  # type: ignore[arg-type]
        produced.topic_data[0].partition_data[0].index = partition
        world.ask(produced, version=12)
    turns = 0
    released = Counter[int]()  # by turn
    turn, propose = world.turns.turn, LedTimers._propose

    def counted() -> bool:
        nonlocal turns
        turns += 1
        return turn()

    def noted(led: LedTimers, rows: Sequence[DueRow], found: Sequence[Waiting]) -> None:
        released[turns] += len(found)
        propose(led, rows, found)

    monkeypatch.setattr(due_heap, "TURN_RECORDS_MAX", TURN_RECORDS_MAX)
    monkeypatch.setattr(world.turns, "turn", counted)
    monkeypatch.setattr(LedTimers, "_propose", noted)

    world.pass_time(1_200)

    assert PARTITIONS * RECORDS == released.total()
    assert TURN_RECORDS_MAX == max(released.values())
    for partition in range(PARTITIONS):
        assert [b"%d" % number for number in range(RECORDS)] == [it.value for it in world.read(TOPIC, partition)]


def test_a_tick_looks_at_few_of_many_idle_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks each time at a partition whose record has just come, and at the others in turn."""
    world, partitions = BrokerWorld(), 3 * AT_ONCE_MIN
    create(world, partitions=partitions)
    world.pass_time(2 * MOVED_MS)
    looked: list[list[int]] = []
    tick, maintain = TimerHost.tick, TimerHost._maintain

    def ticked(host: TimerHost) -> None:
        looked.append([])
        tick(host)

    def maintained(host: TimerHost, shard: Shard, number: int) -> None:
        looked[-1].append(number)
        maintain(host, shard, number)

    monkeypatch.setattr(TimerHost, "tick", ticked)
    monkeypatch.setattr(TimerHost, "_maintain", maintained)
    due = due_at(world.clock.now_ms + 3_600_000)
    world.ask(request(build_batch([(b"k", b"v", due, world.clock.now_ms)])), version=12)  # type: ignore[list-item]
    for _ in range(MOVED_MS // TICK_MS - 1):
        world.pass_time(TICK_MS)

    assert all(0 in numbers for numbers in looked)

    world.pass_time(MOVED_MS)
    looked.clear()
    for _ in range(partitions // AT_ONCE_MIN):
        world.pass_time(TICK_MS)

    assert {*range(partitions)} == {number for numbers in looked for number in numbers}
    assert max(map(len, looked)) <= AT_ONCE_MIN
