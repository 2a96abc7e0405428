"""Lists of records that wait, as HTTP puts them together from the leaders' answers."""

import asyncio
import contextlib
import gc
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidemill.client.timer_choice import Change, Outcome, TimerChoice, due_at, shifted_by
from tidemill.http.v1.brokers import Unreachable
from tidemill.http.v1.budgets import RESPONSE_BYTES_MAX, Exhausted
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.timer_schema import ListQuery, order_of
from tidemill.http.v1.timers import PAGE_BYTES_MAX, TopicTimers, size_of
from tidemill.model import errors
from tidemill.peer import timer_list, timer_resolve

TOPIC: Any = SimpleNamespace(name="reminders", topic_id=bytes(16), partition_count=20)
Record = timer_list.Response.Record


class Leaders:
    """Each partition has records that are due alternately; leaders answer in the reverse order of the requests."""

    def __init__(self, size: int, headers: int = 0, count: int = 2) -> None:
        self._size = size
        self._headers = headers
        self._count = count
        self.answered: list[int] = []

    def config_of(self, topic: Any) -> Any:
        return SimpleNamespace(is_timer=True)

    def place(self, topic: Any, number: int) -> Any:
        return SimpleNamespace(leader=1)

    async def list_timers(self, leader: int, api: Any, request: timer_list.Request) -> timer_list.Response:
        for _ in range(20 - request.partition):
            await asyncio.sleep(0)
        self.answered.append(request.partition)
        headers = [Record.Header(name="", value=None)] * self._headers
        records = [
            Record(arrival=at, due_ms=at, timestamp_ms=0, size_bytes=1, value=bytes(self._size), headers=headers)
            for at in range(self._count)
        ]
        after = request.after_due_ms, request.after_arrival
        behind = [it for it in records if (it.due_ms, it.arrival) > after]
        return timer_list.Response(records=behind[: request.max_records])


def listed(leaders: Any, cursor: str | None = None, limit: int = 100) -> tuple[list[tuple[int, int]], Any, list[int]]:
    """Return due times and partitions of a page, where the next one begins, and which bytes were taken."""
    query, taken = ListQuery(limit=limit, values=True, **({} if cursor is None else {"cursor": cursor})), list[int]()
    page = asyncio.run(TopicTimers(leaders, TOPIC).page(TimerChoice(), query, taken.append))
    assert taken[-1] == size_of(page)
    return [(it.order.due_ms, it.order.partition) for it in page.records], page.next, taken


def test_records_of_all_partitions_are_in_order() -> None:
    found, after, _ = listed(Leaders(1))

    assert ([(due, partition) for due in (0, 1) for partition in range(20)], None) == (found, after)


@pytest.mark.parametrize(("size", "headers"), [(1 << 20, 0), (0, 10_000)])
def test_a_page_takes_bounded_memory_and_the_next_one_goes_on(size: int, headers: int) -> None:
    """
    The leader of each partition answers with so much: all of them would take a multiple.
    """
    found, after, taken = listed(Leaders(size, headers))
    assert max(taken) <= PAGE_BYTES_MAX
    assert 3 == len(found)

    pages = [found]
    while after is not None:
        found, after, _ = listed(Leaders(size, headers), "-".join(map(str, after)))
        pages.append(found)

    assert [(due, partition) for due in (0, 1) for partition in range(20)] == [it for page in pages for it in page]


def test_a_record_of_any_size_is_on_a_page() -> None:
    found, after, _ = listed(Leaders(PAGE_BYTES_MAX + 1))

    assert ([(0, 0)], order_of("0-0-0")) == (found, after)


def test_nothing_is_taken_after_a_refusal() -> None:
    """
    The request is over then, and would never give it back.
    """
    leaders: Any = Leaders(1)
    took: list[int] = []

    def refusing(size: int) -> None:
        took.append(size)
        raise Exhausted(f"{RESPONSE_BYTES_MAX} bytes are taken")

    async def run() -> None:
        with pytest.raises(Exhausted):
            await TopicTimers(leaders, TOPIC).page(TimerChoice(), ListQuery(), refusing)
        took.clear()
        for _ in range(50):
            await asyncio.sleep(0)

    asyncio.run(run())
    assert [] == took
    assert len(leaders.answered) < 8


def test_a_refusal_keeps_nothing_of_what_was_read() -> None:
    """
    Its traceback and the tasks refer to each other: what a budget no longer counts would stay in memory until the next
    collection of cycles.
    """

    def refusing(size: int) -> None:
        raise Exhausted("no bytes are left")

    def records() -> int:
        return sum(isinstance(it, Record) for it in gc.get_objects())

    async def run() -> int:
        with contextlib.suppress(Exhausted):
            await TopicTimers(cast(Any, Leaders(1)), TOPIC).page(TimerChoice(), ListQuery(), refusing)
        for _ in range(50):
            await asyncio.sleep(0)
        return records()

    gc.collect()
    before = records()
    gc.disable()
    try:
        assert before == asyncio.run(run())
    finally:
        gc.enable()


class Deciders:
    """Leaders of two partitions.  Each of `answers`, by partition and whether it is a trial, is given once."""

    def __init__(self, answers: dict[tuple[int, bool], timer_resolve.Response | Unreachable]) -> None:
        self._answers = answers
        self.asked: list[tuple[int, bool]] = []

    def config_of(self, topic: Any) -> Any:
        return SimpleNamespace(is_timer=True)

    def place(self, topic: Any, number: int) -> Any:
        return SimpleNamespace(leader=1)

    async def ask_listener(self, leader: int, api: Any, request: timer_resolve.Request) -> timer_resolve.Response:
        at = request.partition, request.is_trial
        self.asked.append(at)
        found = self._answers.pop(at, None)
        if isinstance(found, Unreachable):
            raise found
        return timer_resolve.Response(changed=1) if found is None else found


def resolved(leaders: Any, change: Change) -> Outcome:
    timers = TopicTimers(leaders, SimpleNamespace(name="reminders", topic_id=bytes(16), partition_count=2))  # type: ignore[arg-type]
    return asyncio.run(timers.resolve(TimerChoice(), change))


@pytest.mark.parametrize(
    "failure",
    [
        Unreachable("lost", is_sent=True),
        timer_resolve.Response(error_code=errors.REQUEST_TIMED_OUT),
        timer_resolve.Response(error_code=errors.NOT_ENOUGH_REPLICAS),
    ],
)
def test_clients_do_not_repeat_a_shift_that_some_partitions_may_have_taken(
    failure: timer_resolve.Response | Unreachable,
) -> None:
    """The error is the one after which the Python client does not repeat it, either."""
    leaders = Deciders({(1, False): failure})

    with pytest.raises(Refused) as refused:
        resolved(leaders, shifted_by(-5))

    body = json.loads(refused.value.answer.text)
    assert (503, "REQUEST_TIMED_OUT") == (body["status"], body["error"])
    assert "1 records or more were moved" in body["detail"]
    assert [(0, True), (1, True), (0, False), (1, False)] == leaders.asked


def test_other_changes_are_repeated_after_a_lost_connection() -> None:
    leaders = Deciders({(1, False): Unreachable("lost", is_sent=True)})

    assert 2 == resolved(leaders, due_at(10**12)).changed
    assert [(0, False), (1, False), (1, False)] == leaders.asked


@pytest.mark.parametrize("shift_ms", [5, -5])
def test_a_shift_that_a_partition_refuses_moves_nothing_in_others(shift_ms: int) -> None:
    leaders = Deciders({(1, True): timer_resolve.Response(error_code=errors.INVALID_REQUEST)})

    with pytest.raises(Refused) as refused:
        resolved(leaders, shifted_by(shift_ms))

    assert 400 == json.loads(refused.value.answer.text)["status"]
    assert [(0, True), (1, True)] == leaders.asked


def test_a_shift_moves_the_records_of_all_partitions() -> None:
    leaders = Deciders({})

    assert 2 == resolved(leaders, shifted_by(5)).changed
    assert [(0, True), (1, True), (0, False), (1, False)] == leaders.asked
