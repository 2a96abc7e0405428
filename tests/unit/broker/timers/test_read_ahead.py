"""Records are read shortly before they are due, and what waits is decided when they are due, not when they are read."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.timers.timer_topic import TOPIC, arrivals, create, due_at, led, named, resolve, send, values
from tidemill.broker.timers import read_ahead
from tidemill.broker.timers.read_ahead import AHEAD_MS, BROKER_BYTES_MAX, LOTS_MAX
from tidemill.broker.timers.waiting_reader import WaitingLogs, read_waiting
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE
from tidemill.storage.disk import Buffer
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.storage.partition.segment import Segment
from tidemill.timer.due_row import pack_rows, unpack_rows
from tidemill.timer.release_batch import decoded

DUE_MS = 5_000
COUNT = 100
TICK_MS = 100


@pytest.fixture
def world() -> BrokerWorld:
    """Return a broker with records that are due in five seconds, in another order than they arrived, on the disk."""
    world = BrokerWorld()
    create(world)
    world.broker.store.cache.bytes_max = 0
    due = world.clock.now_ms + DUE_MS
    places = [*range(COUNT)]
    Random(7).shuffle(places)
    send(world, *((b"%d" % place, named(f"t{place}", due_at(due + 2 * place))) for place in places))
    world.pass_time(1_000)
    world.broker.store.cache.evict()
    assert not arrivals(world).log.tail
    return world


def in_order(*without: int) -> list[bytes]:
    return [b"%d" % place for place in range(COUNT) if place not in without]


def read(world: BrokerWorld) -> int:
    """Return how many records have been read ahead."""
    return sum(len(lot.records) for lot in led(world)._ahead._lots)


def left(world: BrokerWorld) -> int:
    return world.broker.timers._room.left


def arrival_of(world: BrokerWorld, place: int) -> int:
    every = (it for lot in led(world)._ahead._lots for it in lot.records.values())
    return next(it.arrival for it in every if decoded(it.record)[1] == b"%d" % place)


def pass_time(world: BrokerWorld, duration_ms: int) -> None:
    """Let time pass with ticks."""
    for _ in range(duration_ms // TICK_MS):
        world.pass_time(TICK_MS)


def until_read(world: BrokerWorld) -> None:
    world.pass_time(DUE_MS - 1_000 - AHEAD_MS // 4)
    assert COUNT == read(world)


def test_a_release_does_not_wait_for_the_disk(world: BrokerWorld) -> None:
    """
    Nothing is read sooner than needed; what has been read is released while the disk does not answer.
    """
    world.pass_time(DUE_MS - 1_000 - AHEAD_MS - 200)
    before = read(world)
    world.pass_time(AHEAD_MS * 3 // 4)
    world.reads = world.disk.reads_cached = False

    world.pass_time(AHEAD_MS)

    assert (0, in_order()) == (before, values(world))


@pytest.mark.parametrize("is_ahead", [True, False])
def test_records_that_a_release_waits_for_are_counted(world: BrokerWorld, is_ahead: bool) -> None:
    """
    None of them if all have been read ahead, and all if there is no memory for that.
    """
    world.disk.reads_cached = False
    if not is_ahead:
        world.broker.timers._room.left = 0

    pass_time(world, DUE_MS)

    assert in_order() == values(world)
    assert (0 if is_ahead else COUNT) == world.broker.metrics.by_timer_topic.of(TOPIC).read_ahead_misses


def test_records_that_lie_together_are_read_together(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read_bytes: Callable[..., Buffer | None] = PartitionLog.read_bytes

    def counted(log: PartitionLog, segment: Segment, position: int, size: int, *, may_wait: bool) -> Any:
        reads.append(size)
        return read_bytes(log, segment, position, size, may_wait=may_wait)

    monkeypatch.setattr(PartitionLog, "read_bytes", counted)

    pass_time(world, DUE_MS)

    assert in_order() == values(world)
    assert 1 <= len(reads) <= 3  # so many ticks notice that some are due soon


def test_a_record_that_is_cancelled_after_it_was_read_does_not_come(world: BrokerWorld) -> None:
    until_read(world)
    resolve(world, operation=CANCEL, arrivals=[arrival_of(world, 30), arrival_of(world, 99)])

    world.pass_time(2 * AHEAD_MS)

    assert in_order(30, 99) == values(world)


@pytest.mark.parametrize(("by_ms", "place"), [(AHEAD_MS, COUNT - 1), (-100, 0), (121, 60)])
def test_a_record_whose_time_changes_after_it_was_read_comes_at_its_new_time(
    world: BrokerWorld, by_ms: int, place: int
) -> None:
    """
    Once.  Its header says the new time, too.
    """
    until_read(world)
    due = world.clock.now_ms + AHEAD_MS // 4 + by_ms
    resolve(world, operation=RESCHEDULE, arrivals=[arrival_of(world, 30)], due_ms=due)

    world.pass_time(2 * AHEAD_MS)

    wanted = in_order(30)
    wanted.insert(place, b"30")
    assert wanted == values(world)
    assert b"%d" % due == dict(world.read(TOPIC)[place].headers)["tidemill-deliver-at"]


def test_a_record_that_was_replaced_after_it_was_read_does_not_come(world: BrokerWorld) -> None:
    until_read(world)
    send(world, (b"newer", named("t30", due_at(world.clock.now_ms + AHEAD_MS))))

    world.pass_time(2 * AHEAD_MS)

    assert [*in_order(30), b"newer"] == values(world)


def test_the_newest_copy_of_a_moved_record_is_read(world: BrokerWorld) -> None:
    """
    The segment with the former one may be removed while it is read.
    """
    index = led(world).timers.index
    rows = sorted(unpack_rows(index.upcoming(b"", b"\xff")[0]), key=lambda it: it.offset)
    former = rows[0]._replace(due_ms=rows[-1].due_ms, arrival=rows[-1].arrival)
    assert index._window is not None
    index._window.push(pack_rows([former]))

    until_read(world)
    world.reads = world.disk.reads_cached = False
    world.pass_time(AHEAD_MS)

    assert in_order() == values(world)


def test_memory_is_given_back_when_the_records_are_over(world: BrokerWorld) -> None:
    """
    Whether they were released or cancelled.
    """
    until_read(world)
    during = left(world)
    resolve(world, operation=CANCEL, arrivals=[*range(COUNT // 2)])
    world.pass_time(2 * AHEAD_MS)

    assert during < BROKER_BYTES_MAX == left(world)
    assert 0 == read(world)


def test_memory_is_given_back_when_leadership_ends(world: BrokerWorld) -> None:
    """
    That of a job that ends later, too.
    """
    until_read(world)
    former = led(world)
    world.broker.timers.serving_changed(world.partition(TOPIC).shard)  # it leads again
    world.reads = False
    world.pass_time(100)
    reading = left(world)
    led(world).stop()
    world.reads = True
    world.pass_time(100)

    assert not former._ahead._lots
    assert reading < BROKER_BYTES_MAX == left(world)


@pytest.mark.parametrize(("room", "lots"), [(1 << 20, LOTS_MAX), (2_000, 1), (1_000, 0)])
def test_memory_is_bounded(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, room: int, lots: int) -> None:
    """
    That of a partition and that of the broker.  What does not fit is read when it is due.
    """
    monkeypatch.setattr(read_ahead, "LOT_BYTES_MAX", 1_300)  # for three records
    monkeypatch.setattr(world.broker.timers._room, "left", room)
    pass_time(world, DUE_MS - 1_000 - TICK_MS)
    assert (3 * lots, lots) == (read(world), len(led(world)._ahead._lots))

    world.pass_time(1_000)

    assert in_order() == values(world)
    assert room == left(world)


def test_rows_with_wrong_positions_are_found_by_their_offsets(world: BrokerWorld) -> None:
    """
    A run of the index from before an install says where the records lay in the former segments.
    """
    log, kept = led(world)._logs.arrivals, led(world)._logs.kept
    packed, _ = led(world).timers.index.upcoming(b"", b"\xff")
    rows = [*unpack_rows(packed)]
    positions = [row.position for row in sorted(rows, key=lambda it: -it.offset)]
    wrong = [row._replace(position=position) for row, position in zip(rows, positions, strict=True)]

    found, expected = (read_waiting(WaitingLogs(log, kept), them, {}, may_wait=True) for them in (wrong, rows))

    assert found == expected
    assert COUNT == len(found or ())
