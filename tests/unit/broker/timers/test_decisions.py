"""Records that wait are cancelled, replaced, rescheduled and listed; the answer says what became of each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from tests.unit.broker.broker_world import BrokerWorld, Client
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.timers.timer_topic import (
    TOPIC,
    Headers,
    create,
    delay,
    due_at,
    led,
    listed,
    named,
    released,
    request,
    resolve,
    send,
    timers,
    topic_id,
    values,
)
from tidemill.batches.builder import build_batch
from tidemill.broker.clients.connection_memory import RESPONSE_BYTES_MIN, RESPONSES_BYTES_MAX
from tidemill.broker.timers import timer_requests, waiting_scan
from tidemill.broker.timers.led_timers import LedTimers
from tidemill.broker.timers.positioned_batches import positioned_batches
from tidemill.broker.timers.waiting_scan import LIST_BYTES_MAX, WaitingRecord, WaitingScan, first_due
from tidemill.model import errors
from tidemill.peer import timer_list, timer_resolve
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE, SHIFT, Selection
from tidemill.shard.shard import Shard
from tidemill.timer.due_index import DueIndex
from tidemill.timer.due_time import DUE_MS_MAX
from tidemill.timer.schedule import BadSchedule
from tidemill.timer.timer_command import Cancel
from tidemill.timer.waiting_set import Outcome
from tidemill.wire.messages import produce

HOUR_MS = 3_600_000


@pytest.fixture
def world() -> BrokerWorld:
    world = BrokerWorld()
    create(world)
    return world


def outcome(answer: timer_resolve.Response) -> tuple[int, int, int]:
    assert errors.NONE == answer.error_code, answer.error_message
    return answer.changed, answer.over, answer.unknown


def test_a_later_record_with_the_same_id_replaces_the_one_that_waits(world: BrokerWorld) -> None:
    send(world, (b"old", named("a", delay(100))))
    send(world, (b"new", named("a", delay(200))), (b"other", named("b", delay(100))))

    world.pass_time(1_000)

    assert [b"other", b"new"] == values(world)


def test_a_record_that_cancels_is_not_delivered(world: BrokerWorld) -> None:
    cancel: Headers = named("a", [("tidemill-cancel", b"")])
    send(world, (b"old", named("a", delay(100))))
    send(world, (b"", cancel))
    send(world, (b"again", named("a", delay(300))), (b"", cancel), (b"last", named("a", delay(400))))

    world.pass_time(1_000)

    assert [b"last"] == values(world)


def test_an_id_is_free_again_once_its_record_is_out(world: BrokerWorld) -> None:
    send(world, (b"first", named("a", delay(10))))
    world.pass_time(100)
    send(world, (b"second", named("a", delay(10))))
    world.pass_time(100)

    assert [b"first", b"second"] == values(world)


def test_what_an_uncommitted_replacement_names_is_held(world: BrokerWorld) -> None:
    """
    The replacement is in the log, and not committed, when the old record is due: it must not be released any more.
    """
    send(world, (b"old", named("a", delay(100))))
    world.writes = False
    batch = build_batch([(None, b"new", named("a", delay(200)), world.clock.now_ms)])  # type: ignore[list-item]
    world.client.send(request(batch), 12)
    world.pass_time(150)

    world.writes = True
    world.pass_time(1_000)

    assert world.client.answer(produce.API, 12) is not None
    assert [b"new"] == values(world)


@pytest.mark.parametrize("by_id", [False, True])
def test_a_cancelled_record_never_comes(world: BrokerWorld, by_id: bool) -> None:
    send(world, (b"a", named("a", delay(100))), (b"b", named("b", delay(100))), (b"c", delay(1)))
    world.pass_time(50)

    names = {"timer_ids": [b"a", b"nobody"]} if by_id else {"arrivals": [0, 2, 99]}
    answer = resolve(world, operation=CANCEL, **names)
    world.pass_time(1_000)

    assert ((1, 0, 1) if by_id else (1, 1, 1)) == outcome(answer)
    assert [b"c", b"b"] == values(world)


def test_what_an_uncommitted_cancel_names_is_held(world: BrokerWorld) -> None:
    """
    Cancelled is answered only of a record that does not come.  Meanwhile others are released.
    """
    send(world, (b"a", delay(100)), (b"b", delay(100)))
    world.writes = False
    world.client.send(timer_resolve.Request(topic_id=topic_id(world), partition=0, operation=CANCEL, arrivals=[0]), 0)
    world.pass_time(150)
    world.writes = True
    world.stabilize()
    answer = world.client.answer(timer_resolve.API, 0)
    world.pass_time(1_000)

    assert (1, 0, 0) == outcome(answer)
    assert [b"b"] == values(world)


def test_a_cancel_behind_a_release_is_answered_as_released(world: BrokerWorld) -> None:
    """
    Both are in the log and not committed; the release came first.
    """
    send(world, (b"a", delay(100)))
    world.writes = False
    world.pass_time(150)
    world.client.send(timer_resolve.Request(topic_id=topic_id(world), partition=0, operation=CANCEL, arrivals=[0]), 0)
    world.writes = True
    world.stabilize()

    assert (0, 1, 0) == outcome(world.client.answer(timer_resolve.API, 0))
    assert [b"a"] == values(world)


def test_a_record_is_released_at_its_new_time(world: BrokerWorld) -> None:
    """
    Earlier or later than before; the header of the released record says when it was due at last.
    """
    now = world.clock.now_ms
    send(world, (b"a", named("a", delay(100))), (b"b", named("b", delay("1h"))))

    later = resolve(world, operation=RESCHEDULE, timer_ids=[b"a"], due_ms=now + 2_000)
    sooner = resolve(world, operation=RESCHEDULE, arrivals=[1], due_ms=now + 50)
    world.pass_time(1_000)
    first = values(world)
    world.pass_time(2_000)

    assert (1, 0, 0) == outcome(later) == outcome(sooner)
    assert ([b"b"], [b"b", b"a"]) == (first, values(world))
    assert [b"%d" % (now + 50), b"%d" % (now + 2_000)] == [it.headers["tidemill-deliver-at"] for it in released(world)]


def test_a_new_time_survives_a_restart(world: BrokerWorld) -> None:
    now = world.clock.now_ms
    send(world, (b"a", delay(100)), (b"b", delay(100)))
    resolve(world, operation=RESCHEDULE, arrivals=[0], due_ms=now + HOUR_MS)
    world.pass_time(20_000)  # a checkpoint
    again = world.restarted()
    again.pass_time(1_000)
    before = values(again)
    again.pass_time(HOUR_MS)

    assert ([b"b"], [b"b", b"a"]) == (before, values(again))


def test_records_are_selected_by_key_and_time(world: BrokerWorld) -> None:
    now = world.clock.now_ms
    batch = build_batch([(b"order-%d" % at, b"%d" % at, due_at(now + HOUR_MS + at), now) for at in range(10)])
    world.ask(request(batch), 12)

    trial = resolve(world, operation=CANCEL, selection=Selection(key_prefix=b"order-"), is_trial=True)
    keyed = resolve(world, operation=CANCEL, selection=Selection(key=b"order-3"))
    ranged = resolve(
        world, operation=SHIFT, due_ms=-HOUR_MS, selection=Selection(due_before_ms=now + HOUR_MS + 2, key_prefix=b"o")
    )
    world.pass_time(100)

    assert ((10, 0, 0), (1, 0, 0), (2, 0, 0)) == tuple(map(outcome, (trial, keyed, ranged)))
    assert [b"0", b"1"] == values(world)
    assert 7 == timers(world).waiting.count


def test_everything_can_be_cancelled(world: BrokerWorld) -> None:
    """
    More records than one decision names, from memory and from the disk.
    """
    for _ in range(5):
        send(world, *[(b"x", delay("1h"))] * 5_000)
    world.pass_time(1_000)

    answer = resolve(world, operation=CANCEL, selection=Selection())

    assert (25_000, 0, 0) == outcome(answer)
    assert 0 == timers(world).waiting.count


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"operation": CANCEL}, "no records are named"),
        ({"operation": 9, "arrivals": [1]}, "operation 9"),
        ({"operation": RESCHEDULE, "arrivals": [1], "due_ms": 1 << 60}, "the new time"),
        ({"operation": CANCEL, "arrivals": [1], "timer_ids": [b"a"]}, "two requests"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(world: BrokerWorld, fields: dict[str, int], says: str) -> None:
    answer = resolve(world, **fields)

    assert errors.INVALID_REQUEST == answer.error_code
    assert says in (answer.error_message or "")


def test_records_of_other_topics_cannot_be_cancelled(world: BrokerWorld) -> None:
    world.create("plain")
    asked = timer_resolve.Request(
        topic_id=world.partition("plain").log.topic_id, partition=0, operation=CANCEL, arrivals=[0]
    )

    answer = world.ask(asked, version=0)

    assert errors.INVALID_REQUEST == answer.error_code
    assert "create one with tidemill.kind=timer" in answer.error_message


def test_what_waits_is_listed_in_the_order_of_its_times(world: BrokerWorld) -> None:
    now = world.clock.now_ms
    for at in (3, 1, 2, 0):
        send(world, (b"%d" % at, named(f"t{at}", due_at(now + HOUR_MS + at))))

    page = listed(world, max_records=3, has_values=True)
    last = page.records[-1]
    rest = listed(world, max_records=3, after_due_ms=last.due_ms, after_arrival=last.arrival)

    assert ([b"0", b"1", b"2"], True) == ([it.value for it in page.records], page.has_more)
    assert [b"t0", b"t1", b"t2"] == [it.timer_id for it in page.records]
    assert ([0], [None], False) == (
        [it.arrival for it in rest.records],
        [it.value for it in rest.records],
        rest.has_more,
    )
    assert (4, now + HOUR_MS, 4) == (page.waiting, page.next_due_ms, page.end)


def test_a_new_leader_does_not_say_when_records_are_due_before_it_has_read_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ClusterWorld()
    create(world)
    send(world[1], (b"a", delay(HOUR_MS)))
    monkeypatch.setattr(DueIndex, "wanted", lambda self: None)

    world.lead(TOPIC, by=2)
    answer = listed(world[2])

    assert (1, -1) == (answer.waiting, answer.next_due_ms)


def test_what_waits_is_counted_between_times(world: BrokerWorld) -> None:
    now = world.clock.now_ms
    send(world, *[(b"x", due_at(now + 60_000 * at)) for at in (1, 2, 3, 90)])
    resolve(world, operation=CANCEL, arrivals=[1])

    answer = listed(world, edges_ms=[now + 60_000, now + 120_000, now + HOUR_MS])

    assert [0, 1, 1, 1] == list(answer.counts)


def test_everything_is_read_in_the_order_of_arrival(world: BrokerWorld) -> None:
    for _ in range(3):
        send(world, *[(b"x", delay("1h"))] * 4)
    resolve(world, operation=CANCEL, arrivals=[5])

    found, after = [], -1
    while True:
        page = listed(world, max_records=3, is_by_arrival=True, after_arrival=after)
        found += [it.arrival for it in page.records]
        after = found[-1]
        if not page.has_more:
            break

    assert [at for at in range(12) if at != 5] == found


def test_a_timer_is_found_by_its_id_only_while_it_waits(world: BrokerWorld) -> None:
    send(world, (b"a", named("a", delay(100))), (b"b", named("b", delay(100))))

    before = listed(world, max_records=10, timer_ids=[b"a"])
    world.pass_time(200)
    after = listed(world, max_records=10, timer_ids=[b"a"])

    assert ([0], []) == ([it.arrival for it in before.records], list(after.records))


def test_decisions_reach_the_next_leader() -> None:
    world = ClusterWorld()
    create(world)
    send(world[1], *[(b"%d" % at, named(f"t{at}", delay(1_000))) for at in range(4)])
    resolve(world[1], operation=CANCEL, arrivals=[0])
    resolve(world[1], operation=RESCHEDULE, timer_ids=[b"t1"], due_ms=world.clock.now_ms + 5_000)

    world.lead(TOPIC, by=2)
    again = resolve(world[2], operation=CANCEL, timer_ids=[b"t0", b"t2"])
    world.pass_time(3_000)
    first = values(world[2])
    world.pass_time(5_000)

    assert (1, 0, 1) == outcome(again)
    assert ([b"3"], [b"3", b"1"]) == (first, values(world[2]))


def test_a_shift_says_what_was_named_and_does_not_wait(world: BrokerWorld) -> None:
    """
    A selection leaves records out, too, so nothing that it leaves out is missed.
    """
    send(world, (b"a", named("a", delay(HOUR_MS))), (b"b", delay(HOUR_MS)), (b"c", delay(1)))
    world.pass_time(1_000)
    shift = {"operation": SHIFT, "due_ms": 5}

    assert (2, 1, 1) == outcome(resolve(world, arrivals=[0, 1, 2, 9], **shift))
    assert (1, 0, 1) == outcome(resolve(world, timer_ids=[b"a", b"none"], is_trial=True, **shift))
    assert (0, 0, 0) == outcome(resolve(world, timer_ids=[b"a"], selection=Selection(key=b"x"), **shift))


def test_a_new_time_is_refused_for_now_while_the_time_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is later than `tidemill.max.delay.ms` allows cannot be told, so clients ask again."""
    world = BrokerWorld()
    create(world, tidemill_max_delay_ms="60000")
    send(world, (b"a", delay("10s")))
    monkeypatch.setattr(Shard, "release_limit", None)
    answer = resolve(world, operation=RESCHEDULE, arrivals=[0], due_ms=world.clock.now_ms + 1_000)

    assert errors.NOT_ENOUGH_REPLICAS == answer.error_code


@pytest.mark.parametrize("is_over", [False, True])
def test_nothing_is_decided_after_leadership_was_lost(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    """A scan that names records, or the decision before, may take longer than leadership lasts."""
    send(world, (b"a", delay("10s")))
    timers_led, found = led(world), [Outcome()]
    if is_over:
        timers_led.stop()
    else:
        monkeypatch.setattr(Shard, "accepts_writes", False)
    timers_led.decide(Cancel(0, [0]), lambda outcome: found.append(outcome))  # type: ignore[arg-type]

    assert [Outcome(), None] == found
    assert 1 == timers(world).waiting.count


@pytest.mark.parametrize(
    "ask",
    [
        lambda world: listed(world, max_records=9),
        lambda world: listed(world),
        lambda world: resolve(world, operation=CANCEL, arrivals=[0], is_trial=True),
        lambda world: resolve(world, operation=CANCEL, timer_ids=[b"none"], is_trial=True),
    ],
)
def test_a_broker_that_does_not_lead_any_more_says_nothing_of_what_waits(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, ask: Callable[[BrokerWorld], Any]
) -> None:
    """Its successor may have released or cancelled it: an answer is sent only when leadership is confirmed."""
    send(world, (b"a", delay("1h")))
    monkeypatch.setattr(Shard, "confirm_leadership", lambda _, then: then(False))

    answer = ask(world)

    assert errors.NOT_LEADER_OR_FOLLOWER == answer.error_code


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (SHIFT, errors.REQUEST_TIMED_OUT),
        (CANCEL, errors.NOT_LEADER_OR_FOLLOWER),
        (RESCHEDULE, errors.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_clients_are_not_told_to_repeat_a_shift_that_may_be_committed(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, operation: int, code: int
) -> None:
    """A second shift moves the records again; every other decision is harmless to repeat."""
    send(world, (b"a", delay("1h")))
    monkeypatch.setattr(LedTimers, "decide", lambda _, __, then: then(None))

    assert code == resolve(world, operation=operation, arrivals=[0], due_ms=1).error_code


@pytest.mark.parametrize("by_selection", [False, True])
@pytest.mark.parametrize("is_trial", [False, True])
def test_a_shift_beyond_the_bound_of_the_topic_is_refused(by_selection: bool, is_trial: bool) -> None:
    """
    By the name of the record, and nothing is moved.  A shift to an earlier time is always possible.
    """
    world = BrokerWorld()
    create(world, tidemill_max_delay_ms="60000")
    send(world, (b"a", delay("10s")), (b"b", delay("20s")))
    names = {"selection": Selection()} if by_selection else {"arrivals": [0, 1]}
    last = timers(world).index.next_due() + 10_000  # type: ignore[operator]

    refused = resolve(world, operation=SHIFT, due_ms=50_000, is_trial=is_trial, **names)
    taken = resolve(world, operation=SHIFT, due_ms=40_000, is_trial=is_trial, **names)

    assert errors.INVALID_REQUEST == refused.error_code
    assert f"arrival 1 would be due at {last + 50_000}" in (refused.error_message or "")
    assert "tidemill.max.delay.ms=60000" in (refused.error_message or "")
    assert (2, 0, 0) == outcome(taken)


@pytest.mark.parametrize(("bound", "shown"), [("60000", "tidemill.max.delay.ms=60000"), ("-1", "the year 9999")])
def test_a_new_time_beyond_the_bound_of_the_topic_is_refused(bound: str, shown: str) -> None:
    """
    By the name of the setting, and with the latest time that is taken.
    """
    world = BrokerWorld()
    create(world, tidemill_max_delay_ms=bound)
    send(world, (b"a", delay("10s")))
    latest = DUE_MS_MAX if bound == "-1" else world.clock.now_ms + int(bound)

    refused = resolve(world, operation=RESCHEDULE, arrivals=[0], due_ms=latest + 1)
    taken = resolve(world, operation=RESCHEDULE, arrivals=[0], due_ms=latest)

    assert errors.INVALID_REQUEST == refused.error_code
    assert f"{latest + 1} ms since the epoch is later than {shown} allows: use at most {latest}" == (
        refused.error_message or ""
    ).removeprefix("the new time ")
    assert (1, 0, 0) == outcome(taken)


def test_a_shift_beyond_the_year_9999_is_refused(world: BrokerWorld) -> None:
    send(world, (b"a", delay("10s")))

    answer = resolve(world, operation=SHIFT, due_ms=DUE_MS_MAX, selection=Selection())

    assert errors.INVALID_REQUEST == answer.error_code
    assert "the year 9999" in (answer.error_message or "")


@pytest.mark.parametrize("is_trial", [False, True])
@pytest.mark.parametrize("operation", [CANCEL, RESCHEDULE, SHIFT])
def test_what_is_named_twice_counts_once(world: BrokerWorld, operation: int, is_trial: bool) -> None:
    send(world, (b"a", named("a", delay("1h"))), (b"b", delay("1h")), (b"c", delay(1)))
    world.pass_time(1_000)
    how = {"operation": operation, "is_trial": is_trial, "due_ms": world.clock.now_ms + HOUR_MS}
    if operation == SHIFT:
        how["due_ms"] = -1

    assert (1, 1, 1) == outcome(resolve(world, arrivals=[1, 1, 2, 2, 9, 9], **how))
    assert (1, 0, 1) == outcome(resolve(world, timer_ids=[b"a", b"a", b"none", b"none"], **how))


def test_a_selection_is_decided_in_parts(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The names of millions of records would take too much memory: the scan goes on once a part is decided.
    """
    monkeypatch.setattr(timer_requests, "ITEMS_MAX", 10)
    send(world, *[(b"x", delay("1h"))] * 35)
    scanned: list[int] = []
    records = WaitingScan.records

    def counted(scan: WaitingScan, *arguments: Any) -> Iterator[WaitingRecord]:
        for it in records(scan, *arguments):
            scanned.append(timers(world).waiting.count)
            yield it

    monkeypatch.setattr(WaitingScan, "records", counted)
    answer = resolve(world, operation=CANCEL, selection=Selection())

    assert (35, 0, 0) == outcome(answer)
    assert [35] * 10 + [25] * 10 + [15] * 10 + [5] * 5 == scanned


@pytest.mark.parametrize("is_by_arrival", [False, True])
def test_a_list_is_bounded_by_what_is_sent(world: BrokerWorld, is_by_arrival: bool) -> None:
    """
    Values count only if they are asked for.
    """
    for _ in range(30):
        send(world, (bytes(400_000), delay("1h")))

    with_values = listed(world, max_records=100, has_values=True, is_by_arrival=is_by_arrival)
    without = listed(world, max_records=100, is_by_arrival=is_by_arrival)

    assert ([*range(10)], True) == ([it.arrival for it in with_values.records], with_values.has_more)
    assert ([*range(30)], False) == ([it.arrival for it in without.records], without.has_more)
    assert all(it.value is None and it.size_bytes > 400_000 for it in without.records)


@pytest.mark.parametrize("is_by_arrival", [False, True])
def test_a_list_is_bounded_by_the_memory_of_its_headers(world: BrokerWorld, is_by_arrival: bool) -> None:
    """
    An empty header has two bytes in the log, and takes a hundred in memory.
    """
    for _ in range(6):
        send(world, (b"", [*delay("1h"), *[("", None)] * 9_999]))

    page = listed(world, max_records=100, is_by_arrival=is_by_arrival)

    assert ([0, 1, 2], True) == ([it.arrival for it in page.records], page.has_more)
    assert [10_000] * 3 == [len(it.headers) for it in page.records]


@pytest.mark.parametrize("is_by_arrival", [False, True])
def test_lists_share_the_memory_of_responses(world: BrokerWorld, is_by_arrival: bool) -> None:
    """
    A list takes its memory before it is read.  While the responses of other clients have all, it is as short as a
    Fetch.
    """
    for _ in range(5):
        send(world, (bytes(RESPONSE_BYTES_MIN // 3), delay("1h")))
    memory, client = world.broker.memory, Client(world)
    request = timer_list.Request(
        topic_id=topic_id(world), max_records=9, has_values=True, is_by_arrival=is_by_arrival, partition=0
    )

    world.reads = False
    client.send(request, 0)
    world.stabilize()
    taken = memory.reading_bytes
    world.reads = True
    world.stabilize()
    memory.begin_read(RESPONSES_BYTES_MAX)
    short = world.ask(request, version=0)

    assert (LIST_BYTES_MAX, RESPONSES_BYTES_MAX) == (taken, memory.reading_bytes)
    assert 5 == len(client.answer(timer_list.API, 0).records)
    assert (2, True) == (len(short.records), short.has_more)


@pytest.mark.parametrize("has_values", [False, True])
def test_a_scan_holds_a_bounded_number_of_bytes(world: BrokerWorld, has_values: bool) -> None:
    """
    Also if what is due first comes last.
    """
    now = world.clock.now_ms
    for at in range(30):
        send(world, (bytes(400_000), due_at(now + HOUR_MS - at)))

    records = led(world).scan(has_values=has_values).records(Selection())
    found, has_more = first_due(records, (-1, -1), 100, LIST_BYTES_MAX)

    assert (10 if has_values else 30) == len(found)
    assert has_values == has_more
    assert [*range(29, 29 - len(found), -1)] == [it.arrival for it in found]


@pytest.fixture
def tick(world: BrokerWorld) -> int:
    """A schedule that has occurred, and whose next occurrence, which this returns, is not in the log yet."""
    begin = world.clock.now_ms - 26_000
    send(world, (b"tick", named("a", [("tidemill-schedule", b"every 10s"), *due_at(begin)])))
    waiting = timers(world).waiting
    waiting.release([0], begin + 25_000)  # as a late release that commits
    assert [0] == [*waiting.unscheduled]
    return begin + 30_000


@pytest.mark.parametrize("is_trial", [True, False])
@pytest.mark.parametrize(("first", "end", "count"), [(0, 10, 1), (-10, 0, 0), (1, 10, 0), (1, None, 0), (None, 1, 1)])
def test_a_schedule_is_selected_by_its_next_time_before_that_is_in_the_log(
    world: BrokerWorld, tick: int, first: int | None, end: int | None, count: int, is_trial: bool
) -> None:
    """
    Between a release and the decision about the next occurrence.  A schedule outside a range of times goes on.
    """
    bounds = [-1 if it is None else tick + it for it in (first, end)]
    selection = Selection(due_from_ms=bounds[0], due_before_ms=bounds[1])

    cancelled = resolve(world, operation=CANCEL, selection=selection, is_trial=is_trial)

    assert (count, 0, 0) == outcome(cancelled)
    assert (is_trial or not count) == timers(world).waiting.waits(0)


@pytest.mark.parametrize("named_by", [{"selection": Selection()}, {"timer_ids": [b"a"]}, {"arrivals": [0]}])
def test_a_schedule_is_shifted_from_its_next_time_before_that_is_in_the_log(
    world: BrokerWorld, tick: int, named_by: dict[str, Any]
) -> None:
    shifted = resolve(world, operation=SHIFT, due_ms=-5, **named_by)

    assert (1, 0, 0) == outcome(shifted)
    assert tick - 5 == timers(world).waiting.recurring[0].next_ms


@pytest.mark.parametrize("is_by_arrival", [False, True])
def test_a_schedule_is_listed_with_its_next_time_before_that_is_in_the_log(
    world: BrokerWorld, tick: int, is_by_arrival: bool
) -> None:
    recurring = Selection(is_recurring=True)

    page = listed(world, max_records=10, selection=recurring, edges_ms=[tick, tick + 1], is_by_arrival=is_by_arrival)

    assert [(0, tick)] == [(it.arrival, it.due_ms) for it in page.records]
    assert ([] if is_by_arrival else [0, 1, 0]) == list(page.counts)


@contextmanager
def with_unknown_zones() -> Iterator[None]:
    """Let the broker have older time zone data than the one that has taken the record."""
    with patch.object(waiting_scan, "parse_schedule", side_effect=BadSchedule("no such zone")):
        yield


def test_a_schedule_is_listed_with_its_last_time_while_its_zone_is_unknown(world: BrokerWorld, tick: int) -> None:
    """
    The list shows what an operator may cancel.
    """
    with with_unknown_zones():
        page = listed(world, max_records=10)
        cancelled = resolve(world, operation=CANCEL, selection=Selection())

    assert [tick - 30_000] == [it.due_ms for it in page.records]
    assert (1, 0, 0) == outcome(cancelled)


def test_a_schedule_is_not_shifted_while_its_zone_is_unknown(world: BrokerWorld, tick: int) -> None:
    """
    An occurrence that has been delivered would come again.
    """
    with with_unknown_zones():
        refused = resolve(world, operation=SHIFT, due_ms=1_000, selection=Selection())
        moved = resolve(world, operation=RESCHEDULE, due_ms=tick + 1, arrivals=[0])

    assert errors.INVALID_REQUEST == refused.error_code
    assert "arrival 0: its next occurrence" in (refused.error_message or "")
    assert (1, 0, 0) == outcome(moved)


HOURLY: Headers = [("tidemill-schedule", b"every 1h")]


@pytest.mark.parametrize("named_by", [{"selection": Selection()}, {"timer_ids": [b"a"]}, {"arrivals": [0]}])
def test_a_shift_behind_a_release_moves_the_next_occurrence(world: BrokerWorld, named_by: dict[str, Any]) -> None:
    """
    The release is in the log, and not committed, when the request comes.
    """
    due, client = world.clock.now_ms + 100, Client(world)
    send(world, (b"x", named("a", [*HOURLY, *due_at(due)])))
    world.writes = False
    world.pass_time(200)
    assert led(world)._in_flight

    shifted = timer_resolve.Request(topic_id=topic_id(world), partition=0, operation=SHIFT, due_ms=HOUR_MS, **named_by)
    client.send(shifted, 0)
    world.stabilize()
    world.writes = True
    world.stabilize()

    assert (1, 0, 0) == outcome(client.answer(timer_resolve.API, 0))
    assert [b"x"] == values(world)
    assert due + 2 * HOUR_MS == timers(world).waiting.recurring[0].next_ms


@pytest.mark.parametrize("named_by", [{"selection": Selection()}, {"timer_ids": [b"a", b"b"]}, {"arrivals": [0, 1]}])
def test_a_shift_moves_the_next_occurrence_of_what_is_released_while_it_reads(
    world: BrokerWorld, named_by: dict[str, Any]
) -> None:
    """
    What has gone on is read again; the rest is shifted as it was found.
    """
    due, client = world.clock.now_ms + 100, Client(world)
    send(world, (b"x", named("a", [*HOURLY, *due_at(due)])), (b"y", named("b", [*HOURLY, *due_at(due + HOUR_MS)])))
    world.reads = False
    shifted = timer_resolve.Request(topic_id=topic_id(world), partition=0, operation=SHIFT, due_ms=HOUR_MS, **named_by)
    client.send(shifted, 0)
    world.stabilize()
    world.pass_time(200)
    assert [b"x"] == values(world)

    world.reads = True
    world.stabilize()

    assert (2, 0, 0) == outcome(client.answer(timer_resolve.API, 0))
    assert [due + 2 * HOUR_MS] * 2 == [it.next_ms for it in timers(world).waiting.recurring.values()]


def test_a_range_of_times_lets_a_schedule_go_on_whose_occurrence_was_released_meanwhile(world: BrokerWorld) -> None:
    due, client = world.clock.now_ms + 100, Client(world)
    send(world, (b"x", named("a", [*HOURLY, *due_at(due)])))
    world.reads = False
    selection = Selection(due_from_ms=due, due_before_ms=due + 1)
    request = timer_resolve.Request(topic_id=topic_id(world), partition=0, operation=CANCEL, selection=selection)
    client.send(request, 0)
    world.stabilize()
    world.pass_time(200)

    world.reads = True
    world.stabilize()

    assert (0, 0, 0) == outcome(client.answer(timer_resolve.API, 0))
    assert ([b"x"], 1) == (values(world), timers(world).waiting.count)


def test_an_answer_waits_for_the_release_by_which_a_schedule_has_gone_on(world: BrokerWorld) -> None:
    """
    If the release is lost with the leader, the schedule waits for the same occurrence, which a request had chosen.  A
    list shows what is committed.
    """
    due, client = world.clock.now_ms + 100, Client(world)
    send(world, (b"x", named("a", [*HOURLY, *due_at(due)])))
    world.writes = False
    world.pass_time(200)
    selection = Selection(due_from_ms=due, due_before_ms=due + 1)
    asked = timer_resolve.Request(topic_id=topic_id(world), partition=0, operation=CANCEL, selection=selection)
    client.send(asked, 0)
    world.stabilize()

    assert client.answer(timer_resolve.API, 0) is None
    assert [due] == [it.due_ms for it in listed(world, max_records=10).records]
    world.writes = True
    world.stabilize()
    assert (0, 0, 0) == outcome(client.answer(timer_resolve.API, 0))
    assert ([b"x"], 1) == (values(world), timers(world).waiting.count)


def test_a_record_that_ends_while_a_shift_reads_counts_as_over(world: BrokerWorld) -> None:
    """
    Also one with a schedule.
    """
    client = Client(world)
    send(world, (b"x", named("a", HOURLY)), (b"y", named("b", delay("1h"))))
    world.reads = False
    shifted = timer_resolve.Request(
        topic_id=topic_id(world), partition=0, operation=SHIFT, due_ms=5, arrivals=[0, 1, 7]
    )
    client.send(shifted, 0)
    world.stabilize()
    world.reads = True
    resolve(world, operation=CANCEL, arrivals=[0, 1])
    world.stabilize()

    assert (0, 2, 1) == outcome(client.answer(timer_resolve.API, 0))


def test_a_schedule_that_is_over_is_not_listed(world: BrokerWorld, tick: int) -> None:
    """
    No occurrence follows the last one, and that is not in the log yet.
    """
    waiting = timers(world).waiting
    waiting.recurring[0] = waiting.recurring[0]._replace(last_ms=DUE_MS_MAX)

    assert [] == list(listed(world, max_records=10).records)


def test_a_batch_is_read_once_for_all_of_its_records_that_are_named(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0

    def counted(*where: Any, **bounds: Any) -> Any:
        nonlocal reads
        reads += 1
        return positioned_batches(*where, **bounds)

    for batch in range(2):
        send(world, *((b"%d" % it, named(f"{batch} {it}", delay("1h"))) for it in range(100)))
    monkeypatch.setattr(waiting_scan, "positioned_batches", counted)

    page = listed(world, max_records=200, timer_ids=[b"%d %d" % (batch, it) for batch in range(2) for it in range(99)])

    assert (198, 2) == (len(page.records), reads)
