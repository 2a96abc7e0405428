"""Records of a timer topic become visible when they are due: not earlier, once, in the order of their times."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.unit.broker.broker_world import OPTIONS, BrokerWorld, Client
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.timers.timer_topic import (
    TOPIC,
    arrivals,
    create,
    delay,
    due_at,
    named,
    released,
    request,
    resolve,
    send,
    send_batch,
    timers,
    values,
)
from tidemill.batches.batch import LENGTH_BYTES, read_header, stamp_crc, write_header
from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec
from tidemill.broker.shards import ready_loop
from tidemill.broker.shards.ready_loop import CHECKPOINT_MS
from tidemill.broker.timers import led_timers, restoring
from tidemill.broker.timers.waiting_reader import WaitingLogs
from tidemill.model import errors
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE
from tidemill.shard.shard import Shard
from tidemill.timer.due_row import DueRow
from tidemill.timer.release_batch import Waiting
from tidemill.timer.timer_partition import TimerPartition
from tidemill.wire.messages import produce

MINUTE_MS = 60_000


@pytest.fixture
def world() -> BrokerWorld:
    world = BrokerWorld()
    create(world)
    return world


def test_a_record_waits_until_it_is_due(world: BrokerWorld) -> None:
    """
    Neither a millisecond earlier, nor later than the broker's timer.
    """
    assert errors.NONE == send(world, (b"tea", delay("5m"))).error_code

    world.pass_time(5 * MINUTE_MS - 1)
    before = values(world)
    world.pass_time(1)

    assert ([], [b"tea"]) == (before, values(world))


def test_a_record_without_a_time_is_released_at_once(world: BrokerWorld) -> None:
    send(world, (b"now", ()), (b"past", due_at(world.clock.now_ms - MINUTE_MS)))

    world.pass_time(10)

    assert {b"now", b"past"} == {*values(world)}


def test_records_come_in_the_order_of_their_times(world: BrokerWorld) -> None:
    """
    If several are due at one time, the one that arrived first comes first.
    """
    now = world.clock.now_ms
    for value, due in ((b"d", now + 40), (b"a", now + 10), (b"b", now + 10), (b"c", now + 30)):
        send(world, (value, due_at(due)))

    world.pass_time(100)

    assert [b"a", b"b", b"c", b"d"] == values(world)
    assert [0, 1, 2, 3] == [it.offset for it in released(world)]


def test_a_released_record_says_where_it_comes_from(world: BrokerWorld) -> None:
    """
    Its own headers stay; the broker's replace those that a producer has sent.  Its timestamp is the time of release.
    """
    sent_at = world.clock.now_ms
    send(world, (b"first", delay(5)), (b"x", [("trace", b"1"), *delay("1s"), ("tidemill-arrival", b"junk")]))

    world.pass_time(1_000)

    headers = {
        "trace": b"1",
        "tidemill-deliver-at": b"%d" % (sent_at + 1_000),
        "tidemill-timestamp": b"%d" % sent_at,
        "tidemill-arrival": b"1",
    }
    assert (1, b"x", headers, sent_at + 1_000) == released(world)[1]


def test_a_released_record_may_be_passed_on_to_a_timer_topic(world: BrokerWorld) -> None:
    """A mirror sends the headers as they are, and the broker has written small numbers for times before 1973."""
    times = (b"-1", b"1970-01-01T00:00:00.001Z", b"1973-01-01T00:00:00Z", b"%d" % world.clock.now_ms)
    send(world, *((b"x", [("tidemill-deliver-at", at)]) for at in times))
    world.pass_time(10)
    first = released(world)

    answer = send(world, *((it.value, [*it.headers.items()]) for it in first))

    assert (errors.NONE, len(times)) == (answer.error_code, len(first))
    world.pass_time(10)
    again = released(world)[len(times) :]
    assert [it.headers["tidemill-deliver-at"] for it in first] == [it.headers["tidemill-deliver-at"] for it in again]


def test_a_producer_learns_the_arrival_number(world: BrokerWorld) -> None:
    offsets = [send(world, (b"a", delay("1h")), (b"b", delay("1h"))).base_offset for _ in range(3)]

    assert [0, 2, 4] == offsets
    assert 0 == world.partition(TOPIC).high_watermark


def test_a_retry_keeps_its_arrival_number(world: BrokerWorld) -> None:
    """
    An idempotent producer sends a batch again because it has not seen the answer: the record arrives once.
    """
    batch = build_batch(
        [(None, b"once", delay(20), world.clock.now_ms)], producer_id=7, producer_epoch=0, base_sequence=0
    )
    first = send_batch(world, bytes(batch))

    world.pass_time(10)
    again = send_batch(world, bytes(batch))
    world.pass_time(100)

    assert (errors.NONE, first.base_offset) == (again.error_code, again.base_offset)
    assert [b"once"] == values(world)


def test_a_compressed_batch_waits_like_any_other(world: BrokerWorld) -> None:
    batch = build_batch([(None, b"z", delay(20), world.clock.now_ms)] * 3, codec=Codec.ZSTD)

    assert errors.NONE == send_batch(world, batch).error_code
    world.pass_time(20)

    assert [b"z"] * 3 == values(world)


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ([("tidemill-delay", b"soon")], "tidemill-delay='soon'"),
        ([("tidemill-delay", b"1s"), ("tidemill-deliver-at", b"1700000000000")], "keep one"),
        ([("tidemill-deliver-at", b"1700000000")], "look like seconds"),
        ([("tidemill-deliver-at", None)], "tidemill-deliver-at=null"),
        ([("tidemill-delay", b"9" * 18)], "the year 9999"),
        ([("tidemill-timer-id", b"")], "tidemill-timer-id"),
        ([("tidemill-timer-id", b"x" * 257)], "257 bytes"),
        ([("tidemill-timer-id", b"a"), ("tidemill-timer-id", b"b")], "2 times"),
        ([("tidemill-cancel", b"")], "without tidemill-timer-id"),
    ],
)
def test_a_header_that_is_wrong_refuses_the_batch(
    world: BrokerWorld, headers: list[tuple[str, bytes | None]], says: str
) -> None:
    """
    The answer names the record, and none of the batch waits.
    """
    answer = send(world, (b"good", delay(1)), (b"bad", headers))

    assert errors.INVALID_RECORD == answer.error_code
    assert says in (answer.error_message or "")
    assert [1] == [it.batch_index for it in answer.record_errors]
    world.pass_time(100)
    assert ([], 0) == (values(world), timers(world).waiting.end)


def test_a_delay_beyond_the_bound_of_the_topic_is_refused() -> None:
    world = BrokerWorld()
    create(world, tidemill_max_delay_ms="60000")

    refused, taken = send(world, (b"x", delay("61s"))), send(world, (b"y", delay("60s")))

    assert (errors.INVALID_RECORD, errors.NONE) == (refused.error_code, taken.error_code)
    assert "tidemill.max.delay.ms=60000" in (refused.error_message or "")


def test_records_that_wait_are_bounded_by_their_bytes() -> None:
    """
    Clients retry the refusal, and succeed once some records have been released.
    """
    world = BrokerWorld()
    create(world, tidemill_timer_waiting_bytes_max="2000", internal_segment_bytes="1000")
    first = send(world, (bytes(1_200), delay(50)))

    refused = send(world, (bytes(1_200), delay(50)))
    world.pass_time(2_000)
    again = send(world, (bytes(1_200), delay(50)))

    assert (errors.NONE, errors.KAFKA_STORAGE_ERROR) == (first.error_code, refused.error_code)
    assert "tidemill.timer.waiting.bytes.max=2000" in (refused.error_message or "")
    assert errors.NONE == again.error_code


def test_records_that_are_not_committed_yet_count_as_waiting() -> None:
    """
    Otherwise, a producer with requests in flight would exceed the bound.
    """
    world = BrokerWorld()
    create(world, tidemill_timer_waiting_bytes_max="2000")
    clients = Client(world), Client(world)

    world.writes = False
    for client in clients:
        client.send(request(build_batch([(b"k", bytes(1_200), delay("1h"), world.clock.now_ms)])), 12)
    world.writes = True
    world.stabilize()
    codes = [client.answer(produce.API, 12).responses[0].partition_responses[0].error_code for client in clients]

    assert [errors.NONE, errors.KAFKA_STORAGE_ERROR] == codes


def test_a_batch_that_never_fits_the_bound_is_too_large() -> None:
    """
    The refusal is none that clients retry.
    """
    world = BrokerWorld()
    create(world, tidemill_timer_waiting_bytes_max="1000")

    refused = send(world, (bytes(1_200), delay("1h")))

    assert errors.MESSAGE_TOO_LARGE == refused.error_code
    assert "tidemill.timer.waiting.bytes.max of topic reminders is 1000" in (refused.error_message or "")


def test_a_new_batch_counts_without_its_compression() -> None:
    """
    What waits counts so, too.
    """
    world = BrokerWorld()
    create(world, tidemill_timer_waiting_bytes_max="1000")
    batch = build_batch([(b"k", bytes(1_200), delay("1h"), world.clock.now_ms)], codec=Codec.ZSTD)
    assert len(batch) < 500

    assert errors.MESSAGE_TOO_LARGE == send_batch(world, batch).error_code


def test_a_batch_that_unfolds_into_too_many_bytes_is_refused(world: BrokerWorld) -> None:
    """
    max.message.bytes counts the bytes that wait, which are not compressed.
    """
    bomb = build_batch([(None, bytes(4 << 20), delay("1s"), world.clock.now_ms)], codec=Codec.ZSTD)
    assert len(bomb) < 10_000

    answer = send_batch(world, bomb)

    assert errors.MESSAGE_TOO_LARGE == answer.error_code
    assert 0 == timers(world).waiting.end


def test_a_batch_whose_records_cannot_be_walked_is_refused(world: BrokerWorld) -> None:
    """Its second record has the least delta of a timestamp, which other topics take."""
    least = b"\xff" * 9 + b"\x01"
    one = build_batch([(None, b"v", (), world.clock.now_ms)])
    batch = one + b"\x20" + b"\0" + least + b"\x02" + b"\x01" + b"\x02v" + b"\0"
    length = len(batch) - LENGTH_BYTES
    write_header(batch, read_header(one)._replace(batch_length=length, last_offset_delta=1, record_count=2))
    stamp_crc(batch)

    refused = send_batch(world, batch)

    assert errors.INVALID_RECORD == refused.error_code
    assert "the batch cannot be read" in (refused.error_message or "")
    assert errors.NONE == send(world, (b"good", delay(5))).error_code


def test_many_records_of_one_time_come_in_batches(world: BrokerWorld) -> None:
    """
    A release takes a bounded number of records, and goes on until all that are due are out.
    """
    due = world.clock.now_ms + 1_000
    for start in range(0, 25_000, 5_000):
        send(world, *[(b"%d" % (start + at), due_at(due)) for at in range(5_000)])

    world.pass_time(1_200)

    found = released(world)
    assert [b"%d" % at for at in range(25_000)] == [it.value for it in found]


def test_at_most_four_batches_are_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Others are proposed when the journal has written those.
    """
    monkeypatch.setattr(led_timers, "RECORDS_MAX", 1)
    world = BrokerWorld()
    create(world)
    send(world, *[(b"%d" % at, delay("1s")) for at in range(10)])
    world.writes = False
    world.pass_time(2_000)
    in_flight = world.partition(TOPIC).log.end_offset

    world.writes = True
    world.stabilize()
    world.pass_time(1_000)

    assert 4 == in_flight
    assert [b"%d" % at for at in range(10)] == values(world)


def test_no_batch_is_proposed_while_8_mib_are_in_flight() -> None:
    """
    A record that is larger than 1 MiB is a batch of its own.
    """
    options = replace(OPTIONS, journal_first_bytes=16 << 20, journal_file_bytes=16 << 20, journal_bytes_max=64 << 20)
    world = BrokerWorld(options=options)
    create(world, max_message_bytes=str(4 << 20))
    for _ in range(4):
        send(world, (bytes(3 << 20), delay("1s")))
    world.writes = False
    world.pass_time(2_000)
    in_flight = world.partition(TOPIC).log.end_offset

    world.writes = True
    world.stabilize()
    world.pass_time(1_000)

    assert 3 == in_flight
    assert 4 == len(values(world))


def test_no_timestamp_is_before_the_time_of_its_record(world: BrokerWorld) -> None:
    """
    The clock steps back while a record that is due is read: what was certain stays so.
    """
    due_ms = world.clock.now_ms + 1_000
    send(world, (b"x", due_at(due_ms + 60_000)))
    resolve(world, operation=RESCHEDULE, arrivals=[0], due_ms=due_ms)  # so that it is read by a job
    world.reads = False
    world.pass_time(1_000)

    world.clock.wrong_ms = -30_000
    world.reads = True
    world.stabilize()

    assert [(b"x", due_ms)] == [(it.value, it.timestamp) for it in released(world)]


def test_a_restart_forgets_nothing_and_repeats_nothing(world: BrokerWorld) -> None:
    send(world, (b"early", delay(50)), (b"late", delay("1h")))
    world.pass_time(100)
    again = world.restarted()
    again.pass_time(500)

    before = values(again)
    again.pass_time(3_600_000)

    assert ([b"early"], [b"early", b"late"]) == (before, values(again))


def test_a_restart_from_a_checkpoint_reads_what_waits_again(world: BrokerWorld) -> None:
    """
    The index and the ids are not in the checkpoint: they come from the records that wait, by a job.
    """
    send(world, (b"replaced", named("a", delay("1h"))), (b"stays", named("b", delay("1h"))), (b"gone", delay(1)))
    world.pass_time(60_000)  # a checkpoint is taken
    assert world.broker.store.checkpoints.number > 0
    again = world.restarted(reads=False)
    again.pass_time(500)
    assert not timers(again).is_restored

    send(again, (b"new", named("a", delay("1h"))))  # it replaces a record whose id is not known yet
    again.reads = True
    again.pass_time(2 * 3_600_000)

    assert timers(again).is_restored
    assert [b"gone", b"stays", b"new"] == values(again)


def test_changes_that_waited_for_a_restart_are_applied_in_several_turns(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it reads what waits, a broker defers the changes that others make.  They may be many."""
    monkeypatch.setattr(restoring, "TURN_RECORDS_MAX", 10)
    send(world, (b"first", delay("1h")))
    world.pass_time(60_000)  # a checkpoint is taken
    again = world.restarted(reads=False)
    again.pass_time(500)
    for _ in range(5):
        send(again, *[(b"more", delay("1h"))] * 6)
    turns, turn = 0, again.turns.turn
    applied_by: list[int] = []
    apply = TimerPartition.apply_deferred

    def counted() -> bool:
        nonlocal turns
        turns += 1
        return turn()

    def noted(restored: TimerPartition, records_max: int) -> bool:
        applied_by.append(turns)
        return apply(restored, records_max)

    monkeypatch.setattr(again.turns, "turn", counted)
    monkeypatch.setattr(TimerPartition, "apply_deferred", noted)
    again.reads = True
    again.pass_time(2 * 3_600_000)

    assert 3 == len({*applied_by}) == len(applied_by)  # 12, 12 and 6 records
    assert [b"first", *[b"more"] * 30] == values(again)


def test_segments_of_which_nothing_waits_are_removed() -> None:
    world = BrokerWorld()
    create(world, internal_segment_bytes="2000")
    for at in range(20):
        send(world, (bytes(500), delay(10 * (at + 1))))
    send(world, (b"late", delay("1h")))

    world.pass_time(5_000)
    for _ in range(2):
        world.pass_time(CHECKPOINT_MS)

    log = arrivals(world).log
    assert 21 == timers(world).waiting.end and 20 == timers(world).waiting.first_waiting()
    assert 1 == len(log.segments) and log.log_start <= 20
    world.pass_time(3_600_000)
    assert b"late" == values(world)[-1]


def test_a_log_start_is_moved_once_for_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The bytes stay until a checkpoint.  Until then, the same log start must not enter the log again every second.
    """
    monkeypatch.setattr(ready_loop, "CHECKPOINT_MS", 3_600_000)
    moved: list[tuple[int, int]] = []
    move_log_start = Shard.move_log_start

    def noted(shard: Shard, number: int, offset: int, now_ms: int) -> int:
        moved.append((number, offset))
        return move_log_start(shard, number, offset, now_ms)

    monkeypatch.setattr(Shard, "move_log_start", noted)
    world = BrokerWorld()
    create(world, internal_segment_bytes="2000")
    for at in range(20):
        send(world, (bytes(500), delay(10 * (at + 1))))
    send(world, (b"late", delay("1h")))

    for _ in range(10):
        world.pass_time(2_000)

    number, log = arrivals(world).number, arrivals(world).log
    assert len(log.segments) > 1 and log.trimmed == 0
    assert (number, log.log_start) == moved[-1] and 0 < log.log_start <= 20
    assert len({*moved}) == len(moved)


def test_bytes_of_arrivals_stay_until_a_checkpoint_knows_that_they_are_not_needed() -> None:
    """
    A start begins with the state of the newest checkpoint.  By that state, the replaced record waits, so its bytes must
    be there: its id is read from them, and the change that ends it, which names it by its id, is applied again.
    """
    world = BrokerWorld()
    create(world, internal_segment_bytes="2000")
    send(world, (b"replaced", named("x", delay("1h"))))
    world.pass_time(CHECKPOINT_MS)
    send(world, (b"new", named("x", delay("1h"))))
    for _ in range(5):
        send(world, (bytes(1_000), named("x", delay("1h"))))
    world.pass_time(2_000)
    world.pass_time(1_000)
    is_moved = arrivals(world).log.log_start > 0
    again = world.restarted()
    again.pass_time(500)
    again.pass_time(500)

    assert is_moved
    assert (7, 1) == (timers(again).waiting.end, timers(again).waiting.count)


def test_released_records_leave_a_full_disk(world: BrokerWorld) -> None:
    """
    Arrivals are refused while fewer than 256 MiB are free; what is due goes on to leave until fewer than 64 MiB are.
    """
    send(world, (b"a", delay("10s")), (b"b", delay("20s")))
    world.disk.free_bytes = 100 << 20
    world.pass_time(1)  # the broker looks at its disk before the first record is due
    world.pass_time(10_500)

    refused = send(world, (b"c", delay("1s")))
    at_100_mib = values(world)
    world.disk.free_bytes = 10 << 20
    world.pass_time(1)
    world.pass_time(20_000)
    at_10_mib = values(world)
    world.disk.free_bytes = None
    world.pass_time(1_000)

    assert errors.KAFKA_STORAGE_ERROR == refused.error_code
    assert ([b"a"], [b"a"], [b"a", b"b"]) == (at_100_mib, at_10_mib, values(world))


def test_a_record_is_read_from_the_disk_if_it_has_left_memory() -> None:
    """
    It makes no difference whether the bytes are in memory, in the page cache, or must be waited for.
    """
    world = BrokerWorld()
    create(world)
    world.broker.store.cache.bytes_max = 0
    send(world, *[(b"%d" % at, delay(5_000)) for at in range(100)])
    world.pass_time(1_000)  # written back
    world.broker.store.cache.evict()
    assert not arrivals(world).log.tail
    world.reads = world.disk.reads_cached = False
    world.pass_time(5_000)
    assert 0 == world.partition(TOPIC).high_watermark

    world.reads = True
    world.pass_time(10)

    assert [b"%d" % at for at in range(100)] == values(world)


def test_a_record_that_is_moved_away_and_back_while_it_is_read_comes_once() -> None:
    """
    A job reads it when it is due; meanwhile it is moved to a later time, and then to the old one.
    """
    world = BrokerWorld()
    create(world)
    world.broker.store.cache.bytes_max = 0
    due = world.clock.now_ms + 5_000
    send(world, (b"x", due_at(due)))
    world.pass_time(1_000)  # written back
    world.broker.store.cache.evict()
    world.reads = world.disk.reads_cached = False
    world.pass_time(5_000)
    for moved_to in (due + MINUTE_MS, due):
        resolve(world, operation=RESCHEDULE, arrivals=[0], due_ms=moved_to)
        world.pass_time(10)

    world.reads, world.writes = True, False
    world.pass_time(100)
    world.writes = True
    world.pass_time(100)

    assert [b"x"] == values(world)


def test_a_rotten_record_is_not_released() -> None:
    """
    A flipped bit in the segment is found by the record's own CRC: the batch of released records would hide it.
    """
    world = BrokerWorld()
    create(world)
    world.broker.store.cache.bytes_max = 0
    send(world, (bytes(1_000), delay(5_000)))
    world.pass_time(1_000)
    world.broker.store.cache.evict()
    segment = arrivals(world).log.segments[0]
    segment.opened(world.disk).write(500, [b"\xff"])

    world.pass_time(10_000)

    assert [] == values(world)
    assert any("segment damaged" in line for line in world.events)


def test_nothing_is_released_twice_when_leadership_moves() -> None:
    """
    What the former leader has proposed and not committed is taken again by the next one, once.
    """
    world = ClusterWorld()
    create(world)
    for at in range(30):
        send(world[1], (b"%d" % at, delay(50 * at)))
    for leader in (2, 3, 1):
        world.lead(TOPIC, by=leader)
        world.pass_time(400)
    world.pass_time(2_000)

    assert [b"%d" % at for at in range(30)] == values(world[1])


def test_a_leader_that_hears_too_few_clocks_takes_no_arrivals() -> None:
    """
    A delay that counted from an old append time would be over at once.
    """
    world = ClusterWorld()
    create(world)
    send(world[1], (b"before", delay("1m")))
    world[1].broker.cluster.clocks.keep_only([])

    answer = send(world[1], (b"after", delay("1m")))
    world.pass_time(1_000)
    later = send(world[1], (b"later", delay("1m")))

    assert errors.NOT_ENOUGH_REPLICAS == answer.error_code
    assert errors.NONE == later.error_code


@pytest.mark.parametrize("count", [80, 6_000])
def test_large_records_of_one_new_time_come_in_batches(world: BrokerWorld, count: int) -> None:
    """
    The rows of rescheduled records do not say how large they are.
    """
    now, size = world.clock.now_ms, 16_000_000 // count
    per_batch = 500_000 // size
    for first in range(0, count, per_batch):
        numbers = range(first, min(first + per_batch, count))
        send(world, *((b"%d" % at + bytes(size), due_at(now + MINUTE_MS)) for at in numbers))
    moved = resolve(world, operation=RESCHEDULE, arrivals=[*range(count)], due_ms=now)
    world.pass_time(1_000)

    assert count == moved.changed
    assert [b"%d" % at for at in range(count)] == [(it or b"").rstrip(b"\0") for it in values(world)]
    assert 0 == timers(world).waiting.count


def test_what_is_read_of_large_records_at_once_is_bounded(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A read returns the first ones, in order, and releases do not read all others again and again.
    """
    sizes: list[int] = []
    asked: list[int] = []
    read = led_timers.read_waiting

    def measured(
        logs: WaitingLogs, rows: Sequence[DueRow], ahead: Mapping[int, Waiting], *, may_wait: bool
    ) -> list[Waiting] | None:
        found = read(logs, rows, ahead, may_wait=may_wait)
        sizes.append(sum(len(it.record) for it in found or ()))
        asked.append(len(rows))
        return found

    monkeypatch.setattr(led_timers, "read_waiting", measured)
    now = world.clock.now_ms
    for _ in range(40):
        send(world, (bytes(200_000), due_at(now + MINUTE_MS)))
    resolve(world, operation=RESCHEDULE, arrivals=[*range(40)], due_ms=now)
    world.pass_time(1_000)

    assert 40 == len(values(world))
    assert max(sizes) <= 1 << 20
    assert sum(asked) < 300


def test_large_schedules_come_in_batches(world: BrokerWorld) -> None:
    for at in range(80):
        send(world, (bytes(200_000), named(str(at), [("tidemill-schedule", b"every 10s")])))

    world.pass_time(10_500)

    assert 160 == len(values(world))


def test_a_record_that_the_journal_does_not_take_any_more_is_tried_again(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Its row is not lost, and the event log says why it does not come.
    """
    send(world, (bytes(10_000), delay("1s")))
    with monkeypatch.context() as patched:
        patched.setattr(Shard, "batch_bytes_max", 9_000)
        world.pass_time(1_100)
        before = values(world)
    world.pass_time(1_100)

    assert ([], [bytes(10_000)]) == (before, values(world))


def test_a_record_that_the_journal_does_not_take_blocks_its_partition_until_it_is_cancelled(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What is due later would come before it otherwise.  The event log says so, at rising intervals, and what to do.
    """
    send(world, (b"before", delay("1s")))
    send(world, (bytes(10_000), delay("1s")), (b"later", delay("2s")))
    monkeypatch.setattr(Shard, "batch_bytes_max", 9_000)
    for _ in range(40):
        world.pass_time(1_000)
    blocked = [line for line in world.events if "release blocked" in line]
    before = values(world)
    resolve(world, operation=CANCEL, arrivals=[1])
    world.pass_time(1_000)

    assert [b"before"] == before
    assert [b"before", b"later"] == values(world)
    assert [1, 2, 4, 8, 16, 32] == [int(line.partition("tries=")[2].split()[0]) for line in blocked]
    assert all("is too large: the journal takes at most 9000 B" in line for line in blocked)
    assert all("tidemill.journal.bytes.max" in line for line in blocked)
    assert all(f"tidemill timers cancel {TOPIC} --arrival 0:1" in line for line in blocked)


def test_a_record_that_is_blocked_for_long_is_logged_every_hour(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    And at once when another record is blocked.
    """
    send(world, (bytes(10_000), delay("1s")), (bytes(10_000), delay("2s")))
    monkeypatch.setattr(led_timers, "LOGGED_TRIES", 10)
    monkeypatch.setattr(Shard, "batch_bytes_max", 9_000)
    for _ in range(30):
        world.pass_time(1_000)
    resolve(world, operation=CANCEL, arrivals=[0])
    world.pass_time(1_000)
    blocked = [line for line in world.events if "release blocked" in line]

    assert [1, 2, 4, 8, 10, 16, 20, 30, 1] == [int(line.partition("tries=")[2].split()[0]) for line in blocked]


@pytest.mark.parametrize("has_large_numbers", [False, True])
def test_the_largest_record_that_is_accepted_can_be_released(world: BrokerWorld, has_large_numbers: bool) -> None:
    """
    A release adds headers, and digits to the time if the record was moved.
    """
    now, bound = world.clock.now_ms, world.partition(TOPIC).shard.batch_bytes_max
    timestamp = (1 << 62) if has_large_numbers else now
    headers = due_at(now + 2_000) if has_large_numbers else ()

    def batch(size: int) -> bytearray:
        return build_batch([(None, bytes(size), headers, timestamp)])  # type: ignore[list-item]

    answers = {size: send_batch(world, batch(size)) for size in range(bound - 100, bound - 400, -1)}
    size = max(size for size, answer in answers.items() if answer.error_code == errors.NONE)
    world.pass_time(5_000)

    refused = answers[size + 1]
    assert errors.MESSAGE_TOO_LARGE == refused.error_code
    assert f"the bound of the journal is {bound}" in (refused.error_message or "")
    assert size == max(len(it or b"") for it in values(world))
    assert 0 == timers(world).waiting.count


def test_due_times_may_make_a_full_batch_larger() -> None:
    """
    Producers fill batches up to max.message.bytes, and know nothing of the digits that their delays become.
    """
    world = BrokerWorld()
    create(world, max_message_bytes="20000")
    now = world.clock.now_ms
    full = build_batch([(None, b"", delay("2s"), now)] * 750)  # type: ignore[list-item]
    assert 18_000 < len(full) <= 20_000

    answer = send_batch(world, full)
    world.pass_time(5_000)

    assert errors.NONE == answer.error_code
    assert 750 == len(released(world))


def test_each_record_of_a_batch_must_fit_alone_when_it_is_released() -> None:
    world = BrokerWorld()
    create(world, max_message_bytes="20000")
    now = world.clock.now_ms

    def batch(size: int) -> bytearray:
        return build_batch([(None, b"", (), now), (None, bytes(size), delay(1), now)])  # type: ignore[list-item]

    answers = {size: send_batch(world, batch(size)) for size in range(19_600, 19_900)}
    accepted = [size for size, answer in answers.items() if answer.error_code == errors.NONE]
    world.pass_time(5_000)

    refused = answers[accepted[-1] + 1]
    assert accepted == [*range(19_600, accepted[-1] + 1)]
    assert errors.MESSAGE_TOO_LARGE == refused.error_code
    assert "a record alone has" in (refused.error_message or "")
    assert accepted[-1] == max(len(it or b"") for it in values(world))
