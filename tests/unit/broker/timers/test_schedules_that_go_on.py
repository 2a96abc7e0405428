"""Requests about timers, whose schedules go on, records move, or leadership is lost, while they read what waits."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld, Client
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.timers.test_draining import drain
from tests.unit.broker.timers.timer_topic import (
    TOPIC,
    create,
    delay,
    due_at,
    listed,
    named,
    request,
    send,
    timers,
    topic_id,
)
from tidemill.batches.builder import build_batch
from tidemill.broker.shards import ready_loop
from tidemill.broker.timers import draining, timer_requests
from tidemill.broker.timers.timer_host import TimerHost
from tidemill.model import errors
from tidemill.peer import timer_resolve
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE, SHIFT, Selection
from tidemill.wire.messages import produce

HOUR_MS = 3_600_000
HOURLY = [("tidemill-schedule", b"every 1h")]


class HeldJobs:
    """Jobs that read what waits, which run when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._run = TimerHost.in_thread
        self._held: list[Any] = []
        monkeypatch.setattr(TimerHost, "in_thread", lambda *job: self._held.append(job))

    def __iter__(self) -> Iterator[Any]:
        """Run each job, which may begin others, and yield a function that goes on with its result."""
        while self._held:
            host, job, done = self._held.pop(0)
            results: list[Any] = []
            self._run(host, job, results.append)
            yield lambda done=done, results=results: done(*results)


def ask(world: Any, client: Client, **fields: Any) -> None:
    client.send(timer_resolve.Request(topic_id=topic_id(world), partition=0, **fields), 0)


@pytest.mark.parametrize("named_by", ["selection", "timer_ids", "arrivals"])
def test_a_shift_moves_each_record_once_if_some_are_moved_to_the_kept_log(
    monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    """
    A schedule has gone on, and is to be read again.  Its segment is removed before, so all that waits is read.
    """
    monkeypatch.setattr(draining, "SPARE_BYTES", 1 << 30)
    monkeypatch.setattr(ready_loop, "CHECKPOINT_MS", 500)
    monkeypatch.setattr(timer_requests, "AGAIN_MS_MAX", HOUR_MS)  # draining takes a while here
    world = BrokerWorld()
    create(world, internal_segment_bytes="3000")
    send(world, (b"s", named("s", [*HOURLY, *due_at(world.clock.now_ms + 6_000)])), (b"p", named("p", delay("5h"))))
    for at in range(10):
        send(world, *[(bytes(200), delay(10))] * 9, (b"%d" % at, named(f"t{at}", delay(f"{at + 2}h"))))
    world.pass_time(1_000)
    before = {it.timer_id: it.due_ms for it in listed(world, max_records=100).records}
    names = {
        "selection": Selection(),
        "timer_ids": [b"s", b"p", *(b"t%d" % it for it in range(10))],
        "arrivals": [0, 1, *(11 + 10 * it for it in range(10))],
    }
    client = Client(world)
    with monkeypatch.context() as patch:
        held: list[Any] = []
        run = TimerHost.in_thread
        patch.setattr(TimerHost, "in_thread", lambda *job: held.append(job))
        ask(world, client, operation=SHIFT, due_ms=HOUR_MS, **{named_by: names[named_by]})
        world.stabilize()
        world.pass_time(6_000)
        is_drained = False
        while held:
            if timers(world).waiting.rescheduled.keys() - {0} and not is_drained:  # all others are shifted
                is_drained = True
                drain(world, monkeypatch)
            run(*held.pop(0))
            world.stabilize()

    answer = client.answer(timer_resolve.API, 0)
    after = {it.timer_id: it.due_ms for it in listed(world, max_records=100).records}
    assert is_drained
    assert (errors.NONE, 12, 0, 0) == (answer.error_code, answer.changed, answer.over, answer.unknown)
    assert {it: 2 if it == b"s" else 1 for it in before} == {it: (after[it] - before[it]) / HOUR_MS for it in before}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"operation": SHIFT, "due_ms": 5}, errors.REQUEST_TIMED_OUT),
        ({"operation": CANCEL, "selection": Selection(due_from_ms=0)}, errors.REQUEST_TIMED_OUT),
        ({"operation": CANCEL}, errors.NONE),
        ({"operation": RESCHEDULE, "due_ms": 1 << 42}, errors.NONE),
    ],
)
def test_a_request_ends_if_schedules_go_on_faster_than_they_are_read(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], code: int
) -> None:
    """
    If it does not matter for what they wait, the request needs one read.
    """
    world = BrokerWorld()
    create(world)
    send(world, (b"x", named("a", [("tidemill-schedule", b"every 1s"), *due_at(world.clock.now_ms + 100)])))
    client, jobs = Client(world), HeldJobs(monkeypatch)
    ask(world, client, **{"selection": Selection(), **fields})
    world.stabilize()

    rounds = 0
    for done in jobs:
        world.pass_time(1_200)
        done()
        world.stabilize()
        rounds += 1

    assert code == client.answer(timer_resolve.API, 0).error_code
    assert (rounds > 10) == bool(code)


def test_a_request_ends_with_the_leadership_of_its_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It reads, and waits neither for a release that the next leader removes from the log, nor does it hold up what is
    written when this broker leads again.
    """
    world = ClusterWorld()
    create(world)
    one = world[1]
    due = world.clock.now_ms + 500
    send(one, (b"x", named("a", [*HOURLY, *due_at(due)])))  # type: ignore[arg-type]
    world.pass_time(100)
    world.hold(sender=(1,))
    for _ in range(5):
        Client(one).send(request(build_batch([(None, b"v", delay("1h"), world.clock.now_ms)])), 12)  # type: ignore[arg-type]
    world.stabilize()
    world.pass_time(500)
    assert timers(one).last_release is not None  # type: ignore[arg-type]
    client = Client(one)  # type: ignore[arg-type]
    one.reads = False
    ask(one, client, operation=CANCEL, selection=Selection(due_from_ms=due, due_before_ms=due + 1))
    world.stabilize()
    world.hold(sender=(1,), to=(1,))
    world.until(lambda: not one.shard(TOPIC).is_serving, "the leadership is lost")

    one.reads = True
    world.stabilize()
    answer = client.answer(timer_resolve.API, 0)
    world.hold()
    world.until(lambda: world.led_by(TOPIC) in (2, 3), "another broker leads")
    world.lead(TOPIC, by=1)
    producer = Client(one)  # type: ignore[arg-type]
    producer.send(request(build_batch([(None, b"v", delay("1h"), world.clock.now_ms)])), 12)
    world.pass_time(1_000)

    assert errors.NOT_LEADER_OR_FOLLOWER == answer.error_code
    written = producer.answer(produce.API, 12).responses[0].partition_responses[0]
    assert errors.NONE == written.error_code
