"""Records that wait long are moved out of old segments, so that a few of them do not keep all bytes of the log."""

from collections.abc import Iterator
from errno import EIO
from typing import Any

import pytest

from tests.unit.batches.record_bytes import RawRecord, append_record, raw_records
from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.timers.timer_topic import (
    TOPIC,
    arrivals,
    create,
    delay,
    led,
    listed,
    named,
    released,
    resolve,
    send,
    send_batch,
    timers,
    values,
)
from tidemill.batches.batch import HEADER_BYTES
from tidemill.batches.builder import batch_of_encoded, build_batch
from tidemill.broker.shards import ready_loop
from tidemill.broker.timers import draining, positioned_batches, waiting_scan
from tidemill.broker.timers.waiting_scan import LIST_BYTES_MAX
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE, Selection
from tidemill.shard.shard import Shard

HOUR_MS = 3_600_000


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    """Return a broker whose topic holds ten records that wait long, among many that are out, all moved meanwhile."""
    monkeypatch.setattr(draining, "SPARE_BYTES", 0)
    monkeypatch.setattr(ready_loop, "CHECKPOINT_MS", 500)  # segments are removed after a checkpoint
    world = BrokerWorld()
    create(world, internal_segment_bytes="3000")
    for at in range(10):
        send(world, *[(bytes(200), delay(10))] * 9, (b"%d" % at, named(f"t{at}", delay(f"{at + 2}h"))))
    assert 100 == timers(world).waiting.end
    for _ in range(60):
        world.pass_time(250)
    return world


def kept_end(world: BrokerWorld) -> int:
    kept = world.partition(TOPIC).kept
    assert kept is not None
    return kept.log.end_offset


def long_waiting(world: BrokerWorld) -> list[bytes | None]:
    return [value for value in values(world) if value != bytes(200)]


def test_the_log_of_arrivals_becomes_small(world: BrokerWorld) -> None:
    """
    Everything still waits, and the bytes that keep it are about those of the records.
    """
    assert 10 == timers(world).waiting.count
    assert 0 < kept_end(world) <= 20
    assert arrivals(world).log.log_start >= 70
    assert arrivals(world).log.size_bytes < 7_000


def test_nothing_is_moved_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    What is free below 256 MiB is for records that are due; the copies are made when there is room again.
    """
    monkeypatch.setattr(draining, "SPARE_BYTES", 0)
    world = BrokerWorld()
    create(world, internal_segment_bytes="3000")
    for at in range(10):
        send(world, *[(bytes(200), delay(10))] * 9, (b"%d" % at, delay(f"{at + 2}h")))
    world.disk.free_bytes = 100 << 20

    world.pass_time(15_000)
    at_100_mib = values(world), kept_end(world)
    world.disk.free_bytes = None
    world.pass_time(15_000)

    assert ([bytes(200)] * 90, 0) == at_100_mib
    assert kept_end(world) > 0


def test_a_job_looks_at_few_records(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """
    A job that looked at a whole segment would keep the interpreter from the event loop for seconds.
    """
    scanned: list[int] = []
    long_waiting_records = draining._long_waiting

    def counted(log: Any, first: int, *rest: Any, **more: Any) -> Any:
        found, end = long_waiting_records(log, first, *rest, **more)
        scanned.append(end - first)
        return found, end

    monkeypatch.setattr(draining, "_long_waiting", counted)
    monkeypatch.setattr(draining, "SCANNED_MAX", 7)

    world = request.getfixturevalue("world")

    assert 7 == max(scanned)
    assert arrivals(world).log.log_start >= 70


def test_moved_bytes_are_counted(world: BrokerWorld) -> None:
    kept = world.partition(TOPIC).kept
    assert kept is not None

    found = kept.log.read(0, 1 << 20, kept_end(world), may_wait=True)

    assert found is not None
    counted = world.broker.metrics.by_timer_topic.of(TOPIC).bytes_moved
    assert sum(map(len, found[0])) == counted > 0


def test_moved_records_come_when_they_are_due(world: BrokerWorld) -> None:
    """
    Once, in order, and with their arrival numbers.
    """
    for _ in range(12):
        world.pass_time(HOUR_MS)

    assert [b"%d" % at for at in range(10)] == long_waiting(world)
    assert 0 == timers(world).waiting.count


def test_a_restart_finds_moved_records(world: BrokerWorld) -> None:
    """
    With their ids: they can be cancelled and replaced by them.
    """
    again = world.restarted()
    again.pass_time(20_000)  # a checkpoint
    again = again.restarted()
    again.pass_time(500)

    answer = resolve(again, operation=CANCEL, timer_ids=[b"t3", b"t4"])
    send(again, (b"new", named("t5", delay("1h"))))
    for _ in range(12):
        again.pass_time(HOUR_MS)

    assert 2 == answer.changed
    assert [b"new", *(b"%d" % at for at in (0, 1, 2, 6, 7, 8, 9))] == long_waiting(again)


@pytest.mark.parametrize("restarts", [False, True])
def test_moved_records_can_be_rescheduled(world: BrokerWorld, restarts: bool) -> None:
    now = world.clock.now_ms
    resolve(world, operation=RESCHEDULE, timer_ids=[b"t9"], due_ms=now + 1_000)
    resolve(world, operation=RESCHEDULE, timer_ids=[b"t0"], due_ms=now + 24 * HOUR_MS)
    world.pass_time(30_000)
    if restarts:
        world = world.restarted()
        world.pass_time(500)

    first = long_waiting(world)
    for _ in range(30):
        world.pass_time(HOUR_MS)

    assert [b"9"] == first
    assert [b"9", *(b"%d" % at for at in range(1, 9)), b"0"] == long_waiting(world)


def test_moved_records_are_listed_once(world: BrokerWorld) -> None:
    page = listed(world, max_records=100, has_values=True)
    by_arrival = listed(world, max_records=100, is_by_arrival=True)
    selected = resolve(world, operation=CANCEL, selection=Selection(key=b"k"), is_trial=True)

    assert [b"%d" % at for at in range(10)] == [it.value for it in page.records]
    assert [10 * at + 9 for at in range(10)] == [it.arrival for it in by_arrival.records]
    assert 10 == selected.changed


def test_the_kept_log_is_drained_as_well(world: BrokerWorld) -> None:
    """
    What waits longest moves on when most of the kept log is out.
    """
    for _ in range(20):
        send(world, *[(bytes(200), delay(10))] * 9, (b"x", delay("5m")))
    for _ in range(60):
        world.pass_time(250)
    world.pass_time(6 * 60_000)
    for _ in range(60):
        world.pass_time(250)
    kept = world.partition(TOPIC).kept
    assert kept is not None
    assert 10 == timers(world).waiting.count
    assert kept.log.size_bytes + arrivals(world).log.size_bytes < 14_000

    for _ in range(12):
        world.pass_time(HOUR_MS)

    assert [b"%d" % at for at in range(10)] == [it for it in long_waiting(world) if it != b"x"]


def test_a_log_of_which_most_records_wait_is_left_alone(world: BrokerWorld) -> None:
    """
    The newest segment of the arrivals is what is large, and cannot be removed yet.
    """
    kept = world.partition(TOPIC).kept
    assert kept is not None
    kept.log.roll()
    send(world, (b"x", delay("5h")), *[(b"", delay(10))] * 40)
    for _ in range(20):
        world.pass_time(500)
    before = kept_end(world)
    for _ in range(20):
        world.pass_time(500)

    assert before == kept_end(world) == 10
    assert [1, 2] == [len(it.log.segments) for it in (arrivals(world), kept)]


def test_large_records_are_moved_in_batches_that_the_journal_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The bound of a batch holds with the last record that fits, and for the largest record, which is moved alone.
    """
    monkeypatch.setattr(draining, "SPARE_BYTES", 0)
    monkeypatch.setattr(ready_loop, "CHECKPOINT_MS", 500)
    world = BrokerWorld()
    create(world, internal_segment_bytes="3000000")
    bound = world.partition(TOPIC).shard.batch_bytes_max
    monkeypatch.setattr(Shard, "batch_bytes_max", bound)  # otherwise it grows with the journal
    send(world, *[(b"", delay(10))] * 20)
    sizes = [300_000, bound - 300, 600_000, 600_000]
    for size in sizes:
        assert 0 == send(world, (b"w" * size, delay("2h"))).error_code
    for _ in range(8):
        send(world, (bytes(600_000), delay(10)))
    for _ in range(60):
        world.pass_time(250)

    assert len(sizes) == timers(world).waiting.count
    assert len(sizes) == kept_end(world)
    for _ in range(3):
        world.pass_time(HOUR_MS)
    assert sorted(sizes) == sorted(len(it or b"") for it in values(world) if (it or b"").startswith(b"w"))


def test_records_whose_timestamps_are_far_apart_are_moved_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The timestamps are the producers', who may send any, and a batch says how far each is from the first one.
    """
    monkeypatch.setattr(draining, "SPARE_BYTES", 0)
    monkeypatch.setattr(ready_loop, "CHECKPOINT_MS", 500)
    world = BrokerWorld()
    create(world, internal_segment_bytes="3000")
    timestamps = [-(1 << 62), (1 << 62) + 5, -(1 << 62)]
    for at, timestamp in enumerate(timestamps):
        answer = send_batch(world, build_batch([(b"k", b"%d" % at, tuple(delay("2h")), timestamp)]))
        assert 0 == answer.error_code
    for _ in range(4):
        send(world, *[(bytes(200), delay(10))] * 9)
    for _ in range(60):
        world.pass_time(250)

    assert 3 == kept_end(world)
    for _ in range(3):
        world.pass_time(HOUR_MS)
    assert [b"0", b"1", b"2"] == long_waiting(world)


def test_a_record_that_is_cancelled_while_its_batch_is_read_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Their timestamps are near that of the first record that was read, but may be too far apart for a batch that begins
    with one of them.
    """
    world = small_segments(monkeypatch)
    furthest = (1 << 63) - 1
    for at, timestamp in enumerate((0, furthest, -furthest)):
        batch = build_batch([(b"k", b"%d" % at, tuple(named(f"t{at}", delay("2h"))), timestamp)])
        assert 0 == send_batch(world, batch).error_code
    read, cancelled = draining._long_waiting, []

    def long_waiting_before_a_cancel(*args: Any, **named: Any) -> Any:
        found = read(*args, **named)
        if not cancelled and found[0]:
            cancelled.append([it.arrival for _, it in found[0]])
            assert 1 == resolve(world, operation=CANCEL, timer_ids=[b"t0"]).changed
        return found

    monkeypatch.setattr(draining, "_long_waiting", long_waiting_before_a_cancel)
    fill(world)

    assert [[0, 1, 2]] == cancelled
    assert 2 == kept_end(world)
    for _ in range(3):
        world.pass_time(HOUR_MS)
    assert [(b"1", b"%d" % furthest), (b"2", b"%d" % -furthest)] == [
        (it.value, it.headers["tidemill-timestamp"]) for it in released(world) if it.value != bytes(200)
    ]


RAW_RECORDS: list[RawRecord] = [
    (None, None, []),
    (b"", b"", [(b"", None), (b"", b""), (b"", None)]),
    (b"\xff", b"\xc3", [(b"\xff\xfe\x80", b"\xff"), (b"\xff\xfe\x80", None), (b"\xed\xa0\x80", b"")]),
    (b"k", None, [(b"tidemill-arrival\xff", b"1"), (b"tidemill-deliver-at ", None), (b"\0", b"\0")]),
    (None, b"v", [(bytes([it]), bytes([it])) for it in range(256)]),
]


def test_moved_records_keep_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come with what was sent and the broker's headers, whatever bytes the names of headers have."""
    world = small_segments(monkeypatch)
    batch = bytearray(HEADER_BYTES)
    for at, (key, value, headers) in enumerate(RAW_RECORDS):
        append_record(batch, at, at, key, value, [*headers, (b"tidemill-delay", b"2h")])
    send_batch(world, batch_of_encoded(batch, len(RAW_RECORDS), base_timestamp=5, max_timestamp=9))
    fill(world)
    assert len(RAW_RECORDS) == kept_end(world)

    for _ in range(3):
        world.pass_time(HOUR_MS)

    log = world.partition(TOPIC).log
    batches = positioned_batches.positioned_batches(log, 0, log.end_offset)
    released = [it for _, batch in batches for it in raw_records(batch) if it[1] != bytes(200)]
    own = [b"tidemill-deliver-at", b"tidemill-timestamp", b"tidemill-arrival"]
    assert [(key, value, headers[:-3]) for key, value, headers in released] == RAW_RECORDS
    assert [[name for name, _ in headers[-3:]] for *_, headers in released] == [own] * len(RAW_RECORDS)
    assert [dict(headers)[own[1]] for *_, headers in released] == [b"5", b"6", b"7", b"8", b"9"]


def waiting_world(monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    """Return a broker with segments in which one arrival of ten waits long, none of which is drained yet."""
    monkeypatch.setattr(draining, "SPARE_BYTES", 1 << 30)
    monkeypatch.setattr(ready_loop, "CHECKPOINT_MS", 500)
    world = BrokerWorld()
    create(world, internal_segment_bytes="3000")
    for at in range(10):
        send(world, *[(bytes(200), delay(10))] * 9, (b"%d" % at, named(f"t{at}", delay(f"{at + 2}h"))))
    world.pass_time(1_000)
    assert arrivals(world).log.first_base == 0
    return world


def drain(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Move what waits, and remove the segments that it was in."""
    monkeypatch.setattr(draining, "SPARE_BYTES", 0)
    for _ in range(60):
        world.pass_time(250)
    monkeypatch.setattr(draining, "SPARE_BYTES", 1 << 30)
    arrivals(world).log.tail.clear()
    assert arrivals(world).log.first_base >= 70


@pytest.mark.parametrize("read_before", [0, 1, 4])
def test_a_scan_goes_on_when_segments_ahead_of_it_are_removed(
    monkeypatch: pytest.MonkeyPatch, read_before: int
) -> None:
    """
    It finds what was moved meanwhile, and each record once: a shift would count twice otherwise.
    """
    world = waiting_world(monkeypatch)
    arrivals(world).log.tail.clear()  # records in memory can be read although their segments are gone
    monkeypatch.setattr(positioned_batches, "READ_BYTES", 1)
    scan = led(world).scan(has_values=True).records(Selection())
    found = [next(scan).record.value for _ in range(read_before)]
    drain(world, monkeypatch)

    found += [it.record.value for it in scan]

    assert [b"%d" % at for at in range(10)] == sorted(it or b"" for it in found)


def test_a_scan_leaves_out_what_is_over_and_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = waiting_world(monkeypatch)
    scan = led(world).scan(has_values=True).records(Selection())
    resolve(world, operation=CANCEL, timer_ids=[b"t0", b"t3"])
    drain(world, monkeypatch)

    found = [it.record.value for it in scan]

    assert [b"%d" % at for at in (1, 2, 4, 5, 6, 7, 8, 9)] == sorted(it or b"" for it in found)


def test_a_scan_goes_on_when_segments_of_the_kept_log_are_removed(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What it holds is moved to its end, and comes once.
    """
    monkeypatch.setattr(positioned_batches, "READ_BYTES", 1)
    kept = world.partition(TOPIC).kept
    assert kept is not None
    scan = led(world).scan(has_values=True).records(Selection())
    found = [next(scan).record.value]
    before = kept.log.first_base
    for _ in range(20):
        send(world, *[(bytes(200), delay(10))] * 9, (b"x", delay("5m")))
    for _ in range(60):
        world.pass_time(250)
    world.pass_time(6 * 60_000)
    for _ in range(60):
        world.pass_time(250)
    kept.log.tail.clear()
    assert kept.log.first_base > before

    found += [it.record.value for it in scan]

    assert [b"%d" % at for at in range(10)] == sorted(it or b"" for it in found)


def test_a_list_by_arrival_begins_again_when_segments_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Its order must hold for the next page.
    """
    world = waiting_world(monkeypatch)
    scan = led(world).scan()
    drain(world, monkeypatch)

    found, has_more = scan.first_arrived(Selection(), (), 9, 5, LIST_BYTES_MAX)

    assert [19, 29, 39, 49, 59] == [it.arrival for it in found]
    assert has_more


def test_records_that_were_named_are_found_where_they_were_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    world = waiting_world(monkeypatch)
    scan = led(world).scan([b"t2", b"t5"])
    drain(world, monkeypatch)

    assert [29, 59] == sorted(it.arrival for it in scan.records(Selection(), {b"t2", b"t5"}))


def test_a_scan_of_a_disk_that_fails_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    world = waiting_world(monkeypatch)
    tries = []

    def failing(*_: object) -> Iterator[tuple[int | None, memoryview]]:
        tries.append(1)
        raise OSError(EIO, "Input/output error")

    monkeypatch.setattr(waiting_scan, "positioned_batches", failing)

    with pytest.raises(OSError, match="Input/output error"):
        next(led(world).scan().records(Selection()))
    with pytest.raises(OSError, match="Input/output error"):
        led(world).scan().first_arrived(Selection(), (), -1, 5, LIST_BYTES_MAX)
    assert 2 == len(tries)


def small_segments(monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    monkeypatch.setattr(draining, "SPARE_BYTES", 0)
    monkeypatch.setattr(ready_loop, "CHECKPOINT_MS", 500)
    world = BrokerWorld()
    create(world, internal_segment_bytes="3000")
    return world


def fill(world: BrokerWorld) -> None:
    """Let segments arrive of which nothing waits any more, and let time pass for them to be removed."""
    for _ in range(10):
        send(world, *[(bytes(200), delay(10))] * 9)
    for _ in range(60):
        world.pass_time(250)


def test_a_record_that_recurs_soon_again_keeps_no_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is always due soon, and never leaves by itself."""
    world = small_segments(monkeypatch)
    send(world, (b"tick", named("tick", [("tidemill-schedule", b"every 10s")])))
    began = world.clock.now_ms
    fill(world)
    world.pass_time(20_000)

    assert arrivals(world).log.log_start >= 70
    assert 1 == kept_end(world)
    assert [b"tick"] * (1 + (world.clock.now_ms - began) // 10_000) == long_waiting(world)
    resolve(world, operation=CANCEL, timer_ids=[b"tick"])
    assert 0 == timers(world).waiting.count


def test_a_record_that_is_put_off_after_its_segment_was_read_keeps_no_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was due soon then.  What was moved before is not moved again."""
    world = small_segments(monkeypatch)
    send(world, (b"far", delay("2h")), (b"near", named("near", delay("50s"))), *[(bytes(200), delay(10))] * 9)
    fill(world)
    resolve(world, operation=RESCHEDULE, timer_ids=[b"near"], due_ms=world.clock.now_ms + HOUR_MS)
    assert (0, 1) == (arrivals(world).log.log_start, kept_end(world))

    for _ in range(12):
        world.pass_time(10_000)

    assert arrivals(world).log.log_start >= 70
    assert 2 == kept_end(world)
    for _ in range(3):
        world.pass_time(HOUR_MS)
    assert [b"near", b"far"] == long_waiting(world)
