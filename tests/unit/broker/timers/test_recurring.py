"""Records with schedules come again and again, once for each occurrence."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

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
from tidemill.broker.timers import recurrences
from tidemill.model import errors
from tidemill.peer import timer_resolve
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE, SHIFT, Selection
from tidemill.raft.leadership_transfer import TRANSFER_MS
from tidemill.shard import arrivals
from tidemill.shard.shard import Shard
from tidemill.timer.schedule import BadSchedule, Schedule
from tidemill.timer.timer_command import Recur
from tidemill.wire.messages import produce

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def world() -> BrokerWorld:
    world = BrokerWorld()
    create(world)
    return world


def every(interval: str, timer_id: str = "a", **more: str) -> Headers:
    others = [(f"tidemill-{name}", value.encode()) for name, value in more.items()]
    return named(timer_id, [("tidemill-schedule", f"every {interval}".encode()), *others])


def dues(world: BrokerWorld) -> list[int]:
    return [int(it.headers["tidemill-deliver-at"] or b"") for it in released(world)]


def ms(year: int, month: int, day: int) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp()) * 1_000


def test_a_record_comes_at_each_occurrence(world: BrokerWorld) -> None:
    """
    All occurrences are of one arrival, which waits on, and say for which moment they stand.
    """
    began = world.clock.now_ms
    send(world, (b"tick", every("10s")))

    world.pass_time(35_000)

    assert [began + 10_000 * at for at in range(4)] == dues(world)
    assert {b"0"} == {it.headers["tidemill-arrival"] for it in released(world)}
    assert (1, began + 40_000) == (timers(world).waiting.count, listed(world).next_due_ms)


def test_only_records_with_schedules_are_listed_on_demand(world: BrokerWorld) -> None:
    send(world, (b"a", every("10s", "a")), (b"once", named("b", delay("1h"))), (b"c", every("5s", "c")))
    world.pass_time(7_000)

    page = listed(world, max_records=10, selection=Selection(is_recurring=True))

    began = world.clock.now_ms - 7_000
    assert [(b"a", began + 10_000), (b"c", began + 10_000)] == [(it.timer_id, it.due_ms) for it in page.records]


def test_cron_has_a_time_zone(world: BrokerWorld) -> None:
    headers = named("a", [("tidemill-schedule", b"cron 30 8 * * *"), ("tidemill-timezone", b"America/New_York")])
    send(world, (b"daily", headers))

    for _ in range(49):
        world.pass_time(HOUR_MS)

    found = [datetime.fromtimestamp(it / 1_000, UTC).strftime("%H:%M") for it in dues(world)]
    assert ["13:30", "13:30"] == found


def test_a_schedule_begins_when_its_record_says(world: BrokerWorld) -> None:
    began = world.clock.now_ms
    send(world, (b"x", every("10s", **{"deliver-at": str(began + 25_000)})))

    world.pass_time(50_000)

    assert [began + 25_000, began + 35_000, began + 45_000] == dues(world)


def test_a_schedule_ends_when_it_is_cancelled_or_replaced(world: BrokerWorld) -> None:
    send(world, (b"a", every("10s", "a")), (b"b", every("10s", "b")))
    world.pass_time(15_000)

    answer = resolve(world, operation=CANCEL, timer_ids=[b"a"])
    send(world, (b"once", named("b", delay("1s"))))
    world.pass_time(60_000)

    assert 1 == answer.changed
    assert [b"a", b"b", b"a", b"b", b"once"] == values(world)
    assert (0, {}) == (timers(world).waiting.count, timers(world).waiting.recurring)


def test_the_next_occurrence_can_be_moved(world: BrokerWorld) -> None:
    """
    Those behind it follow from the new time.
    """
    began = world.clock.now_ms
    send(world, (b"a", every("10s", "a")))
    world.pass_time(1_000)

    resolve(world, operation=RESCHEDULE, timer_ids=[b"a"], due_ms=began + 4_000)
    world.pass_time(20_000)

    assert [began, began + 4_000, began + 14_000] == dues(world)


def test_a_schedule_can_be_run_twice_at_one_time(world: BrokerWorld) -> None:
    """
    It is moved to the same past time again after it has run: both run at once, and it goes on.
    """
    began = world.clock.now_ms
    send(world, (b"a", every("1h")))
    world.pass_time(1_000)
    for _ in range(2):
        resolve(world, operation=RESCHEDULE, timer_ids=[b"a"], due_ms=began)
        world.pass_time(1_000)
    world.pass_time(2 * HOUR_MS)

    assert [began, began, began, began + HOUR_MS, began + 2 * HOUR_MS] == dues(world)


def test_a_schedule_can_be_run_again_while_its_release_commits(world: BrokerWorld) -> None:
    """
    The new time equals that of the last occurrence, and is in the log before the next one is computed.
    """
    due = world.clock.now_ms + 1_000
    send(world, (b"a", every("1h", **{"deliver-at": str(due)})))
    world.writes = False
    world.pass_time(1_000)
    again = timer_resolve.Request(topic_id=topic_id(world), partition=0, operation=RESCHEDULE, arrivals=[0], due_ms=due)
    Client(world).send(again, 0)
    world.stabilize()

    world.writes = True
    world.stabilize()
    world.pass_time(HOUR_MS)

    assert [due, due, due + HOUR_MS] == dues(world)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_schedule_can_be_run_again_while_its_next_occurrence_is_computed(
    world: BrokerWorld, is_committed: bool
) -> None:
    """
    It is moved to the time of its last occurrence before a job has computed the next one, which must not skip it.
    """
    due = world.clock.now_ms + 1_000
    send(world, (b"a", every("1h", **{"deliver-at": str(due)})))
    world.pass_time(500)
    world.clock.now_ms = due
    world.broker.tick()
    while not timers(world).waiting.unscheduled:
        assert world.step()
    world.reads = False
    world.stabilize()
    assert led(world)._recurrences._is_computing
    world.writes = is_committed
    again = timer_resolve.Request(topic_id=topic_id(world), partition=0, operation=RESCHEDULE, arrivals=[0], due_ms=due)
    Client(world).send(again, 0)
    world.stabilize()

    world.reads = True
    world.stabilize()
    world.writes = True
    world.pass_time(HOUR_MS)

    assert [due, due, due + HOUR_MS] == dues(world)


def test_many_schedules_go_on_after_an_outage(world: BrokerWorld) -> None:
    """
    Their next times are computed in several turns of the event loop.
    """
    for start in (0, 500):
        send(world, *[(b"x", every("1h", f"t{it}")) for it in range(start, start + 500)])
    world.pass_time(1_000)
    world.clock.now_ms += HOUR_MS
    world.pass_time(1_000)

    assert 2_000 == len(dues(world))
    assert (0, 1_000) == (len(timers(world).waiting.unscheduled), timers(world).waiting.count)


@pytest.mark.parametrize(("missed", "expected"), [("one", [0, 10, 60]), ("all", [0, 10, 20, 30, 40, 50, 60])])
def test_occurrences_that_were_missed(world: BrokerWorld, missed: str, expected: list[int]) -> None:
    """
    The broker is down from the second occurrence until after the sixth.
    """
    began = world.clock.now_ms
    send(world, (b"a", every("10s", missed=missed)))
    world.pass_time(5_000)
    world.clock.now_ms += 50_000
    again = world.restarted()

    again.pass_time(9_000)

    assert [began + 1_000 * at for at in expected] == dues(again)


def test_missed_occurrences_are_skipped_on_demand(world: BrokerWorld) -> None:
    """
    With missed=none, an occurrence that could not be released in time does not come.
    """
    began = world.clock.now_ms
    send(world, (b"a", every("1h", missed="none")))
    world.pass_time(5_000)
    world.clock.now_ms += 3 * HOUR_MS + HOUR_MS // 2
    again = world.restarted()

    again.pass_time(HOUR_MS)

    assert [began, began + 4 * HOUR_MS] == dues(again)


def cron(fields: str, timer_id: str, **more: str) -> Headers:
    others = [(f"tidemill-{name}", value.encode()) for name, value in more.items()]
    return named(timer_id, [("tidemill-schedule", f"cron {fields}".encode()), *others])


RARE = "0 0 * 2 MON#5"
PAST = {"missed": "none", "deliver-at": "2016-02-29T00:00:00Z"}  # it is missed when its record arrives


@pytest.fixture
def computed(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many next occurrences each job of the reader threads has computed.  None is computed elsewhere."""
    counts: list[int] = []
    is_job, submit, following, parse = [False], world.read_jobs.submit, Schedule.next, recurrences.parse_schedule

    def counted(self: Schedule, last_due_ms: int, released_ms: int) -> int | None:
        assert is_job[0], "an occurrence is computed on the event loop"
        counts[-1] += 1
        return following(self, last_due_ms, released_ms)

    def parsed(headers: Headers) -> Schedule | None:
        assert is_job[0], "a schedule is parsed on the event loop"
        return parse(headers)

    def submitted(job: Callable[[], object], *reports: Callable[[Any], None]) -> None:
        def run() -> object:
            counts.append(0)
            is_job[0] = True
            try:
                return job()
            finally:
                is_job[0] = False

        submit(run, *reports)

    monkeypatch.setattr(world.read_jobs, "submit", submitted)
    monkeypatch.setattr(Schedule, "next", counted)
    monkeypatch.setattr(recurrences, "parse_schedule", parsed)
    return counts


def test_the_event_loop_computes_no_occurrences(world: BrokerWorld, computed: list[int]) -> None:
    """
    A thousand records are missed at once: a few jobs compute when they are due next, one after the other, although
    nothing is released between them.
    """
    for start in (0, 500):
        assert (
            errors.NONE
            == send(world, *[(b"x", cron(RARE, f"t{it}", **PAST)) for it in range(start, start + 500)]).error_code
        )

    world.pass_time(2_000)

    assert [recurrences.JOB_MAX] * (1_000 // recurrences.JOB_MAX) == [it for it in computed if it]
    assert {ms(2044, 2, 29)} == {it.next_ms for it in timers(world).waiting.recurring.values()}
    assert [] == released(world)
    assert not led(world).needs_occurrences


def test_what_is_skipped_counts_from_its_job(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Otherwise, if many others are computed before, its next occurrence is over as soon as it is known, and skipped, too.
    """
    decided: dict[int, int] = {}
    decide = led(world)._recurrences._decide

    def noted(decision: Recur, then: Callable[[object], None]) -> None:
        decided.setdefault(decision.arrival, decision.next_ms)
        decide(decision, then)

    monkeypatch.setattr(recurrences, "JOB_MAX", 1)
    monkeypatch.setattr(led(world)._recurrences, "_decide", noted)
    world.pass_time(1_000)
    send_only(world, *[(b"x", cron("* * * * *", f"t{it}", **PAST)) for it in range(2)])
    while len(led(world)._recurrences._skipped) < 2:
        assert world.step()
    world.reads = False
    world.pass_time(150_000)
    world.reads = True
    world.stabilize()

    assert world.clock.now_ms // 60_000 * 60_000 == decided[1]


def test_a_record_that_is_released_is_not_late_for_what_is_skipped(world: BrokerWorld, computed: list[int]) -> None:
    """Records that are skipped and others are due together: the others come at once."""
    send(world, *[(b"x", cron(RARE, f"t{it}", **PAST)) for it in range(300)], (b"now", ()), (b"tick", every("1h", "e")))
    world.pass_time(10)

    assert [b"now", b"tick"] == values(world)


OUTAGE_MS = 30_000


@pytest.mark.parametrize(
    ("missed", "late_ms", "is_read"),
    [
        ({}, OUTAGE_MS, False),
        ({"missed": "one"}, OUTAGE_MS, False),
        ({"missed": "all"}, OUTAGE_MS, False),
        ({"missed": "none"}, 999, False),
        ({"missed": "none"}, OUTAGE_MS, True),
    ],
    ids=str,
)
def test_a_release_waits_for_a_schedule_only_if_it_may_be_skipped(
    world: BrokerWorld, missed: dict[str, str], late_ms: int, is_read: bool
) -> None:
    """
    A job would parse the schedules of all that is due, and what is due behind would wait.  But what is to be skipped if
    it was missed waits for its schedule, and later records wait for it, because they come in order.
    """
    due = world.clock.now_ms // 60_000 * 60_000 + 60_000
    begin = {**missed, "deliver-at": str(due)}
    send(world, (b"tick", every("20s", **begin)), (b"now", due_at(due + 1)))
    world.reads = False
    world.clock.now_ms = due + late_ms
    world.pass_time(0)
    came = values(world)

    world.reads = True
    world.pass_time(0)

    assert ([] if is_read else [b"tick", b"now"]) == came
    assert ([b"now"] if is_read else [b"tick", b"now"]) == values(world)[:2]


@pytest.mark.parametrize("value", [b"none", b"tidemill-missed", b"x" * 5_000])
def test_what_is_missed_is_skipped_whatever_else_its_record_has(world: BrokerWorld, value: bytes) -> None:
    """The bytes of a record say whether its occurrence may be skipped: other headers may be before or behind that."""
    missed = {"missed": "none", "deliver-at": str(world.clock.now_ms - HOUR_MS)}
    others = [("a", b"tidemill-missed"), ("tidemill-misse", b"d")]
    send(world, (value, [*others, *every("1d", **missed), *others]), (value, [*others, *every("1d", "b"), *others]))

    world.pass_time(1_000)

    assert [b"b"] == [it.headers["tidemill-timer-id"] for it in released(world)]


def skipping(world: BrokerWorld) -> None:
    """Let a record be skipped whose next occurrence a job is about to compute."""
    world.pass_time(1_000)
    send_only(world, (b"x", cron("0 0 1 11 *", "a", **PAST)))
    while not led(world)._recurrences._skipped:
        assert world.step()
    world.reads = False
    world.stabilize()
    assert led(world)._recurrences._is_computing


def send_only(world: BrokerWorld, *records: tuple[bytes, Headers]) -> None:
    """Produce a batch, without executing what it leads to."""
    batch = build_batch([(b"k", value, headers, world.clock.now_ms) for value, headers in records])  # type: ignore[misc]
    Client(world).send(request(batch), 12)


CHANGES = ("cancelled", "replaced", "moved", "left")


def change_of(world: BrokerWorld, change: str) -> None:
    """Send a change of the record that is skipped, without executing what it leads to."""
    due = world.clock.now_ms + HOUR_MS
    fields = {"cancelled": {"operation": CANCEL}, "moved": {"operation": RESCHEDULE, "due_ms": due}}
    if change == "replaced":
        send_only(world, (b"once", named("a", delay("1h"))))
    elif change in fields:
        asked = timer_resolve.Request(topic_id=topic_id(world), partition=0, arrivals=[0], **fields[change])
        Client(world).send(asked, 0)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_committed", [True, False])
def test_what_is_skipped_may_change_while_its_next_occurrence_is_computed(
    world: BrokerWorld, change: str, is_committed: bool
) -> None:
    """
    A record is cancelled, replaced or moved before or while the job has computed the next occurrence: the change
    counts.
    """
    skipping(world)
    world.writes = is_committed
    change_of(world, change)
    world.stabilize()
    world.reads = True
    world.stabilize()
    world.writes = True
    world.pass_time(1_000)

    waits_until = listed(world).next_due_ms

    now = world.clock.now_ms - 1_000
    assert {
        "cancelled": (0, -1),
        "replaced": (1, now + HOUR_MS),
        "moved": (1, now + HOUR_MS),
        "left": (1, ms(2024, 11, 1)),
    }[change] == (timers(world).waiting.count, waits_until)
    world.pass_time(2 * HOUR_MS)
    assert ([b"once"] if change == "replaced" else [b"x"] if change == "moved" else []) == values(world)


def test_what_was_skipped_is_forgotten_with_its_next_occurrence(world: BrokerWorld) -> None:
    """If its record is moved back to the time of the one that was skipped, that counts anew."""
    skipping(world)
    world.reads = True

    while timers(world).waiting.recurring[0].next_ms != ms(2024, 11, 1):
        assert world.step()

    assert {} == led(world)._recurrences._skipped


def test_a_schedule_goes_on_if_a_transfer_of_leadership_fails() -> None:
    """The job that computes what follows a skipped occurrence ends while the leader proposes nothing."""
    world = ClusterWorld()
    create(world)
    world.lead(TOPIC, by=1)
    leader = world[1]
    skipping(leader)
    world.hold(to=[2])
    world.begin_to_lead(TOPIC, by=2)
    world.cut_off(2)  # it dies before it can lead
    is_proposing = leader.shard(TOPIC).accepts_writes
    leader.reads = True
    world.stabilize()
    world.pass_time(TRANSFER_MS + 200)
    world.hold()
    world.heal()
    world.pass_time(5_000)

    assert not is_proposing and leader.shard(TOPIC).is_serving
    assert ([], ms(2024, 11, 1)) == (values(leader), timers(leader).waiting.recurring[0].next_ms)


def test_what_follows_a_release_does_not_count_from_a_skip_before(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The clock was ahead when an occurrence was skipped, and went back; then the record was moved to the time that it
    has.  A job that began with the skip ends while the release is not committed.
    """
    due, jobs = world.clock.now_ms + 10_000, list[Any]()
    headers = every("10s", missed="none", **{"deliver-at": str(due)})
    send(world, (b"x", headers))
    schedule = recurrences.parse_schedule(headers)
    assert schedule is not None
    led(world)._recurrences.adopt({0: schedule})
    with monkeypatch.context() as patch:
        patch.setattr(world.read_jobs, "submit", lambda *job: jobs.append(job))
        world.clock.now_ms = due + 25_000
        world.pass_time(0)
    assert led(world)._recurrences.skips(0) and len(jobs) == 1
    world.clock.now_ms = due + 5_000
    resolve(world, operation=RESCHEDULE, arrivals=[0], due_ms=due)
    world.writes = False
    led(world).release(0, 1)
    world.stabilize()
    assert led(world)._in_flight

    world.read_jobs.submit(*jobs[0])
    world.stabilize()
    world.writes = True
    world.pass_time(10_000)

    assert [due, due + 10_000] == dues(world)


def test_the_next_leader_skips_again(world: BrokerWorld) -> None:
    """The leader dies before the next occurrence of what it has skipped is in the log."""
    skipping(world)

    again = world.restarted()
    again.pass_time(1_000)

    assert ([], ms(2024, 11, 1)) == (values(again), listed(again).next_due_ms)


@pytest.mark.parametrize("in_time", [True, False])
def test_a_schedule_that_a_broker_does_not_know_waits(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, in_time: bool
) -> None:
    """
    The last leader had newer time zones.  The broker says so, tries again, and runs on.  What it need not know for a
    release comes meanwhile: an occurrence that no schedule skips, and other records.
    """
    begin = {"deliver-at": str(world.clock.now_ms + (1_000 if in_time else -61_000))}
    zone = {"timezone": "Europe/Berlin", "missed": "none", **begin}
    send(world, (b"x", cron("* * * * *", "a", **zone)), (b"once", delay("45s")))
    parse = recurrences.parse_schedule

    def unknown(headers: Headers) -> None:
        raise BadSchedule("no such zone")

    monkeypatch.setattr(recurrences, "parse_schedule", unknown)
    world.pass_time(50_000)
    came = values(world)
    monkeypatch.setattr(recurrences, "parse_schedule", parse)
    world.pass_time(2_000)
    world.pass_time(60_000)

    assert ([b"x", b"once"] if in_time else []) == came
    assert len(came) < len(values(world)) and {b"x", b"once"} == {*values(world)}
    said = [it for it in world.events if "schedule not known" in it]
    assert len(said) == 1 and "arrival 0: no such zone" in said[0]


def test_an_occurrence_is_not_repeated_by_the_next_leader() -> None:
    """
    Leaders change between occurrences, and each goes on where the last one was.
    """
    world = ClusterWorld()
    create(world)
    began = world.clock.now_ms
    send(world[1], (b"a", every("1s")))
    for leader in (2, 3, 1, 2):
        world.pass_time(1_400)
        world.lead(TOPIC, by=leader)
    world.pass_time(1_000)

    found = dues(world[2])
    first = found[0]
    assert [first + 1_000 * at for at in range(len(found))] == found
    assert len(found) >= 5 and first >= began


def test_a_leader_computes_what_the_last_one_has_not() -> None:
    """
    A release has committed, and the next occurrence is not in the log: the next leader reads the record, and goes on.
    """
    world = BrokerWorld()
    create(world)
    began = world.clock.now_ms
    send(world, (b"a", every("10s")))
    led(world)._recurrences.compute = lambda now_ms: None  # type: ignore[method-assign]
    world.pass_time(1_000)
    assert [0] == [*timers(world).waiting.unscheduled]
    world.pass_time(20_000)

    again = world.restarted()
    again.pass_time(500)
    again.pass_time(12_000)

    assert [began, began + 10_000, began + 30_000] == dues(again)


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ([("tidemill-schedule", b"every 10s")], "needs the header tidemill-timer-id"),
        (named("a", [("tidemill-schedule", b"every 10ms")]), "from 1s"),
        (named("a", [("tidemill-schedule", b"cron 0 0 30 2 *")]), "tidemill-schedule"),
        (named("a", [("tidemill-schedule", b"every 1h"), ("tidemill-delay", b"1s")]), "both there"),
        (named("a", [("tidemill-schedule", b"cron * * * * *"), ("tidemill-timezone", b"Mars")]), "no such zone"),
        (named("a", [("tidemill-schedule", b"every 1h"), ("tidemill-cancel", b"")]), "does not recur"),
    ],
)
def test_a_bad_schedule_is_refused(world: BrokerWorld, headers: Headers, says: str) -> None:
    answer = send(world, (b"x", headers))

    assert errors.INVALID_RECORD == answer.error_code
    assert says in (answer.error_message or "")


def test_schedules_of_a_partition_are_bounded(world: BrokerWorld) -> None:
    """
    A record that replaces a schedule adds none, so it is accepted.
    """
    for start in range(0, 10_000, 500):
        numbers = range(start, start + 500)
        sent = send(world, *[(b"x", every("1h", f"t{at}", **{"deliver-at": "9" * 14})) for at in numbers])
        assert errors.NONE == sent.error_code

    answer = send(world, (b"x", every("1h", "t0")), (b"x", every("1h", "more")))
    replacing = send(world, *[(b"x", every("1h", f"t{at}", **{"deliver-at": "9" * 14})) for at in range(500)])

    assert errors.INVALID_RECORD == answer.error_code
    assert "record 1: 1 new schedules" in (answer.error_message or "")
    assert "at most 10000 in a partition" in (answer.error_message or "")
    assert errors.NONE == replacing.error_code
    assert (10_000, 10_500) == (len(timers(world).waiting.recurring), timers(world).waiting.end)


def test_schedules_that_are_not_committed_count(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Several batches in flight do not pass the bound together.  Those that replace each other count once.
    """
    monkeypatch.setattr(arrivals, "SCHEDULES_MAX", 4)
    send(world, (b"x", every("1h", "a")))
    world.writes = False
    client = Client(world)
    for names in ("ab", "bc", "bcd", "de", "abcd"):
        batch = build_batch([(b"k", b"x", every("1h", it), world.clock.now_ms) for it in names])  # type: ignore[list-item]
        client.send(request(batch), 12)
    world.stabilize()

    world.writes = True
    world.stabilize()

    answers = [client.answer(produce.API, 12) for _ in range(5)]
    refused = [it.responses[0].partition_responses[0].error_code for it in answers]
    assert [0, 0, 0, errors.INVALID_RECORD, 0] == refused
    assert (4, 4) == (len(timers(world).waiting.recurring), timers(world).schedule_count)


TICKS_MS = 10_000_000  # ten thousand occurrences of `every 1s`


@pytest.mark.parametrize("missed", ["all", "one", "none"])
def test_a_schedule_that_has_missed_too_much_is_refused(world: BrokerWorld, missed: str) -> None:
    """
    With missed=all, each missed occurrence is released at once: the disk would fill.
    """
    begin = {"missed": missed, "deliver-at": str(world.clock.now_ms - TICKS_MS)}

    answer = send(world, (b"x", delay(1)), (b"tick", every("1s", **begin)))

    is_refused = missed == "all"
    assert (errors.INVALID_RECORD if is_refused else errors.NONE) == answer.error_code
    assert (0 if is_refused else 2) == timers(world).waiting.end
    if is_refused:
        assert f"record 1: tidemill-missed=all: up to 10001 occurrences from {begin['deliver-at']} ms" in (
            answer.error_message or ""
        )


def test_as_many_as_are_allowed_come_at_once(world: BrokerWorld) -> None:
    began = world.clock.now_ms
    send(world, (b"x", every("1s", missed="all", **{"deliver-at": str(began - 50_000)})))

    world.pass_time(2_000)

    assert [began + 1_000 * at for at in range(-50, 3)] == dues(world)


NAMES = [{"arrivals": [1]}, {"timer_ids": [b"a"]}, {"selection": Selection()}]


@pytest.mark.parametrize("names", NAMES, ids=str)
@pytest.mark.parametrize("is_trial", [False, True])
@pytest.mark.parametrize(
    ("operation", "missed", "past_ms", "says"),
    [
        (RESCHEDULE, "all", TICKS_MS, "up to 10001 occurrences"),
        (RESCHEDULE, "all", TICKS_MS - 1, None),
        (RESCHEDULE, "one", TICKS_MS, None),
        (RESCHEDULE, "none", 60_001, "would be skipped"),
        (RESCHEDULE, "none", 60_000, None),
        (SHIFT, "all", TICKS_MS, "up to 10001 occurrences"),
        (SHIFT, "all", TICKS_MS - 1, None),
        (SHIFT, "none", 60_001, "would be skipped"),
        (SHIFT, "none", 60_000, None),
    ],
)
def test_a_schedule_is_not_moved_too_far_into_the_past(
    world: BrokerWorld,
    names: dict[str, object],
    is_trial: bool,
    operation: int,
    missed: str,
    past_ms: int,
    says: str | None,
) -> None:
    """
    A refusal names the arrival, and moves nothing else either.
    """
    due = world.clock.now_ms + HOUR_MS
    begin = {"deliver-at": str(due)}
    send(world, (b"once", delay("1h")), (b"tick", every("1s", missed=missed, **begin)))
    moved = world.clock.now_ms - past_ms

    answer = resolve(
        world, operation=operation, due_ms=moved if operation == RESCHEDULE else moved - due, is_trial=is_trial, **names
    )

    count = 2 if "selection" in names else 1
    assert (0 if says else count) == answer.changed
    assert (errors.INVALID_REQUEST if says else errors.NONE) == answer.error_code
    if says is not None:
        assert f"arrival 1: tidemill-missed={missed}: " in (answer.error_message or "")
        assert says in (answer.error_message or "")
    if says or is_trial:
        assert not timers(world).waiting.rescheduled


@pytest.mark.parametrize("names", NAMES, ids=str)
@pytest.mark.parametrize("operation", [RESCHEDULE, SHIFT])
@pytest.mark.parametrize("moment", [-1, -HOUR_MS, -100 * 365 * DAY_MS - HOUR_MS])
def test_a_schedule_counts_from_a_time_before_1970(
    world: BrokerWorld, names: dict[str, object], operation: int, moment: int
) -> None:
    """The record comes at once, for the first occurrence since then, and later at exact multiples of the interval."""
    due = world.clock.now_ms + HOUR_MS
    send(world, (b"once", due_at(due)), (b"tick", every("1d", **{"deliver-at": str(due)})))

    answer = resolve(world, operation=operation, due_ms=moment if operation == RESCHEDULE else moment - due, **names)
    world.pass_time(10)

    assert answer.changed == (2 if "selection" in names else 1)
    phase = moment % DAY_MS
    assert [phase] == [due for it, due in zip(values(world), dues(world), strict=True) if it == b"tick"]
    assert [0] * (answer.changed - 1) == [
        due for it, due in zip(values(world), dues(world), strict=True) if it == b"once"
    ]
    following = timers(world).waiting.recurring[1].next_ms
    assert (phase, True) == (following % DAY_MS, world.clock.now_ms < following <= world.clock.now_ms + DAY_MS)


def test_a_record_that_does_not_recur_is_moved_to_0_at_the_earliest(world: BrokerWorld) -> None:
    """The log has no negative times."""
    send(world, (b"a", delay("1h")), (b"b", named("b", delay("1h"))), (b"c", delay("1h")))

    for names in ({"arrivals": [0]}, {"timer_ids": [b"b"]}, {"selection": Selection()}):
        assert 1 == resolve(world, operation=RESCHEDULE, due_ms=-5, **names).changed
        world.pass_time(10)

    assert [0, 0, 0] == dues(world)


@pytest.mark.parametrize("names", NAMES, ids=str)
def test_a_schedule_that_is_late_already_may_be_moved_towards_the_present(
    world: BrokerWorld, names: dict[str, object]
) -> None:
    """
    It misses fewer occurrences then.  The broker was down, and its disk refuses what is due now.
    """
    send(world, (b"once", delay("1h")), (b"tick", every("1s", missed="all")))
    world.pass_time(500)
    waits_for = timers(world).waiting.recurring[1].next_ms
    led(world)._may_write = lambda: False
    world.clock.now_ms += 3 * TICKS_MS
    world.stabilize()

    later = resolve(world, operation=RESCHEDULE, due_ms=waits_for + TICKS_MS, **names)
    earlier = resolve(world, operation=RESCHEDULE, due_ms=waits_for + TICKS_MS - 1, **names)

    assert (errors.NONE, errors.INVALID_REQUEST) == (later.error_code, earlier.error_code)


def test_a_schedule_that_replaces_a_record_meanwhile_is_not_moved(world: BrokerWorld) -> None:
    """
    The request names an id, and what waited with it when the request came did not recur.
    """
    now = world.clock.now_ms
    send(world, (b"once", named("a", delay("1h"))))
    world.writes = False
    batch = build_batch([(b"k", b"tick", every("1s", missed="all", **{"deliver-at": str(now + HOUR_MS)}), now)])  # type: ignore[list-item]
    Client(world).send(request(batch), 12)
    world.stabilize()
    moving = timer_resolve.Request(
        topic_id=topic_id(world), partition=0, operation=RESCHEDULE, timer_ids=[b"a"], due_ms=now - 2 * TICKS_MS
    )
    Client(world).send(moving, 0)
    world.stabilize()

    world.writes = True
    world.pass_time(2_000)

    assert ([], now + HOUR_MS) == (values(world), listed(world).next_due_ms)


@pytest.mark.parametrize("missed", ["one", "none"])
def test_no_occurrence_is_left_out_while_the_clock_of_the_leader_is_ahead(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, missed: str
) -> None:
    """
    Its own clock says that the next one is over when it releases the one before; the release clock does not.
    """
    ahead_ms = 5_000
    monkeypatch.setattr(Shard, "release_limit", property(lambda _: world.clock.now_ms - ahead_ms))
    send(world, (b"tick", every("1s", missed=missed)))
    began = world.clock.now_ms

    world.pass_time(ahead_ms + 3_500)

    assert [began + 1_000 * at for at in range(4)] == dues(world)
