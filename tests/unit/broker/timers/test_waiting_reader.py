"""Records that wait are read where they lie, without walking a batch again and again."""

from array import array
from collections.abc import Callable

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.timers.timer_topic import create, due_at, resolve, send, values
from tidemill.batches.batch import Buffer
from tidemill.peer.timer_resolve import RESCHEDULE
from tidemill.timer import arrival_records

BATCHES, RECORDS = 3, 200


@pytest.fixture
def world() -> BrokerWorld:
    world = BrokerWorld()
    create(world)
    return world


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets an item whenever a batch is walked to find its records."""
    found: list[int] = []
    starts_of: Callable[[Buffer], array[int]] = arrival_records.starts_of

    def counted(batch: Buffer) -> "array[int]":
        found.append(len(batch))
        return starts_of(batch)

    monkeypatch.setattr(arrival_records, "starts_of", counted)
    return found


def test_a_batch_is_walked_once_for_all_records_whose_time_has_changed(world: BrokerWorld, walks: list[int]) -> None:
    """
    Otherwise the release of a few thousand records that were moved would hold the event loop for minutes.
    """
    now = world.clock.now_ms
    for batch in range(BATCHES):
        send(world, *((b"%d" % (batch * RECORDS + it), due_at(now + 60_000)) for it in range(RECORDS)))
    moved = [*range(0, BATCHES * RECORDS, 2)]
    resolve(world, operation=RESCHEDULE, arrivals=moved, due_ms=now + 5_000)
    world.pass_time(500)
    walks.clear()

    world.pass_time(4_600)

    assert [b"%d" % it for it in moved] == values(world)
    assert BATCHES == len(walks)


def test_records_whose_time_has_changed_are_read_by_a_job(world: BrokerWorld) -> None:
    """
    Walking their batches would hold the event loop, even if they are in memory.
    """
    now = world.clock.now_ms
    send(world, *((b"%d" % it, due_at(now + 60_000)) for it in range(10)))
    resolve(world, operation=RESCHEDULE, arrivals=[3], due_ms=now + 1_000)
    begun: list[object] = []
    jobs = world.broker.machine.read_jobs
    submit = jobs.submit
    jobs.submit = lambda *arguments: (begun.append(arguments), submit(*arguments))  # type: ignore[method-assign]

    world.pass_time(1_100)

    assert [b"3"] == values(world)
    assert begun
