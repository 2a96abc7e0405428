"""What a replica reads of the logs to restore its index: the rows and ids of what waits, part by part."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.timers.timer_topic import (
    TOPIC,
    arrivals,
    create,
    due_at,
    listed,
    named,
    resolve,
    send,
    timers,
)
from tidemill.broker.timers import restoring
from tidemill.broker.timers.restoring import read_part
from tidemill.broker.timers.waiting_reader import WaitingLogs
from tidemill.model import errors
from tidemill.peer.timer_resolve import CANCEL
from tidemill.timer.due_row import unpack_rows
from tidemill.timer.timer_headers import hash_of

BATCHES, RECORDS = 4, 5
COUNT = BATCHES * RECORDS
OVER = (3, 6, 11)  # arrivals that were cancelled
HOUR_MS = 3_600_000


@pytest.fixture
def world() -> BrokerWorld:
    """Return a broker on which records wait, every third of which has an id."""
    world = BrokerWorld()
    create(world)
    due = due_at(world.clock.now_ms + HOUR_MS)
    for start in range(0, COUNT, RECORDS):
        numbers = range(start, start + RECORDS)
        send(world, *((b"%d" % it, due if it % 3 else named(f"t{it}", due)) for it in numbers))
    resolve(world, operation=CANCEL, arrivals=OVER)
    world.pass_time(250)
    return world


def logs_of(world: BrokerWorld) -> WaitingLogs:
    kept = world.partition(TOPIC).kept
    assert kept is not None, "not a timer partition"
    return WaitingLogs(arrivals(world).log, kept.log)


@pytest.mark.parametrize(("first", "end"), [(0, COUNT), (2, COUNT), (7, 10), (RECORDS, 2 * RECORDS)])
def test_the_rows_and_ids_of_what_waits_are_read(world: BrokerWorld, first: int, end: int) -> None:
    """
    A row of the same record in another run, and an id of a timer that is over, would be wrong.
    """
    logs = logs_of(world)
    part = read_part(logs, first, end, timers(world).waiting.fixed_bits())

    waiting = [it for it in range(first, end) if it not in OVER]
    assert end == part.end
    assert waiting == [row.arrival for row in unpack_rows(part.rows)]
    assert waiting == [row.offset for row in unpack_rows(part.rows)]
    ids = [(it, hash_of(b"t%d" % it, logs.arrivals.topic_id)) for it in waiting if it % 3 == 0]
    assert ids == part.ids


def test_a_part_ends_with_a_batch(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoring, "PART_RECORDS", RECORDS + 1)
    logs, bits = logs_of(world), timers(world).waiting.fixed_bits()
    first = read_part(logs, 0, COUNT, bits)
    second = read_part(logs, first.end, COUNT, bits)

    assert [2 * RECORDS, COUNT] == [first.end, second.end]
    found = [row.arrival for part in (first, second) for row in unpack_rows(part.rows)]
    assert [it for it in range(COUNT) if it not in OVER] == found


def test_nothing_is_said_of_what_waits_before_it_is_read() -> None:
    """
    The ids are not known until then: a timer would be called unknown that waits.
    """
    world = BrokerWorld()
    create(world)
    send(world, (b"a", named("a", due_at(world.clock.now_ms + HOUR_MS))))
    world.pass_time(60_000)  # a checkpoint is taken
    again = world.restarted(reads=False)
    again.pass_time(500)
    assert not timers(again).is_restored

    refused = listed(again, timer_ids=[b"a"], max_records=1), resolve(again, operation=CANCEL, timer_ids=[b"a"])
    again.reads = True
    again.pass_time(500)

    assert [errors.LEADER_NOT_AVAILABLE] * 2 == [it.error_code for it in refused]
    assert 1 == len(listed(again, timer_ids=[b"a"], max_records=1).records)
    assert 1 == resolve(again, operation=CANCEL, timer_ids=[b"a"]).changed
