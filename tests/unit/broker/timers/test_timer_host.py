"""The broker releases a bounded number of records in one turn of the event loop."""

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.timers.timer_topic import TOPIC, create, due_at, request
from tidemill.batches.builder import build_batch
from tidemill.broker.timers import due_heap
from tidemill.broker.timers.led_timers import LedTimers
from tidemill.timer.release_batch import Waiting

PARTITIONS, RECORDS, TURN_RECORDS_MAX = 3, 25, 10


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

    def noted(led: LedTimers, found: Sequence[Waiting]) -> None:
        released[turns] += len(found)
        propose(led, found)

    monkeypatch.setattr(due_heap, "TURN_RECORDS_MAX", TURN_RECORDS_MAX)
    monkeypatch.setattr(world.turns, "turn", counted)
    monkeypatch.setattr(LedTimers, "_propose", noted)

    world.pass_time(1_200)

    assert PARTITIONS * RECORDS == released.total()
    assert TURN_RECORDS_MAX == max(released.values())
    for partition in range(PARTITIONS):
        assert [b"%d" % number for number in range(RECORDS)] == [it.value for it in world.read(TOPIC, partition)]
