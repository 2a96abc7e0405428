"""What a replica reads of the logs to restore its index: the rows and ids of what waits, part by part."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld, Client
from tests.unit.broker.timers.timer_topic import (
    TOPIC,
    arrivals,
    create,
    due_at,
    listed,
    named,
    request,
    resolve,
    send,
    timers,
)
from tidemill.batches.builder import build_batch
from tidemill.broker.timers import restoring
from tidemill.broker.timers.restoring import read_part
from tidemill.broker.timers.waiting_reader import WaitingLogs
from tidemill.model import errors
from tidemill.peer.timer_resolve import CANCEL
from tidemill.shard import arrivals as arriving
from tidemill.timer.due_row import unpack_rows
from tidemill.timer.timer_headers import hash_of
from tidemill.wire.messages import produce

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


EVERY_DAY = ("tidemill-schedule", b"every 1d")
SCHEDULES = 4


@pytest.fixture
def restarted(monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    """Return a broker with as many schedules as may wait, which has restarted, and has not read what waits yet."""
    monkeypatch.setattr(arriving, "SCHEDULES_MAX", SCHEDULES)
    world = BrokerWorld()
    create(world)
    due = due_at(world.clock.now_ms + HOUR_MS)
    send(world, *((b"old", named(f"t{it}", [*due, EVERY_DAY])) for it in range(SCHEDULES)))
    world.pass_time(60_000)  # a checkpoint is taken
    again = world.restarted(reads=False)
    again.pass_time(500)
    assert not timers(again).is_restored
    return again


def test_schedules_may_be_sent_again_while_what_waits_is_read(restarted: BrokerWorld) -> None:
    """
    Those that replace others seem new until the ids are known.  The client is asked to retry, and not told for good
    that there are too many; but what is wrong in any case is.
    """
    same, more = (b"new", named("t0", [EVERY_DAY])), (b"new", named("t9", [EVERY_DAY]))
    early = send(restarted, same)
    wrong = send(restarted, (b"new", [("tidemill-delay", b"soon")]))
    once = send(restarted, (b"once", due_at(restarted.clock.now_ms + HOUR_MS)))
    restarted.reads = True
    restarted.pass_time(500)

    codes = [early.error_code, once.error_code, *(send(restarted, it).error_code for it in (same, more))]

    assert [errors.LEADER_NOT_AVAILABLE, errors.NONE, errors.NONE, errors.INVALID_RECORD] == codes
    assert "what waits in reminders-0 is being read; retry" == early.error_message
    assert errors.INVALID_RECORD == wrong.error_code
    assert SCHEDULES == len(timers(restarted).waiting.recurring)


def test_the_order_of_a_producer_is_kept_while_what_waits_is_read(restarted: BrokerWorld) -> None:
    """
    It has sent a batch of plain records behind a schedule that is refused for now: that is refused, too.
    """
    now = restarted.clock.now_ms
    due = due_at(now + HOUR_MS)
    batches = [
        build_batch([(b"k", value, headers, now)], producer_id=7, producer_epoch=0, base_sequence=at)  # type: ignore[list-item]
        for at, (value, headers) in enumerate([(b"first", named("t0", [*due, EVERY_DAY])), (b"second", due)])
    ]
    client = Client(restarted)

    def answers() -> list[tuple[int, int]]:
        for batch in batches:
            client.send(request(batch), 12)
        restarted.pass_time(500)
        found = [client.answer(produce.API, 12).responses[0].partition_responses[0] for _ in batches]
        return [(it.error_code, it.base_offset) for it in found]

    early = answers()
    restarted.reads = True
    restarted.pass_time(500)

    assert [(errors.LEADER_NOT_AVAILABLE, -1)] * 2 == early
    assert [(errors.NONE, SCHEDULES), (errors.NONE, SCHEDULES + 1)] == answers()
