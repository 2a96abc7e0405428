"""`/v1/topics/{topic}/timers`: list, count, cancel and reschedule the records that wait in a timer topic.

Any broker answers: it asks the leaders of the partitions.  What is answered after a change is committed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from tidemill.batches.records import HEADER_MEMORY, RECORD_MEMORY
from tidemill.client.timer_choice import (
    CANCELLED,
    Change,
    Listed,
    Outcome,
    Page,
    TimerChoice,
    list_request,
    merged,
    outcome_of,
    page_of,
    resolve_request,
    timers_of,
)
from tidemill.http.v1.brokers import Brokers
from tidemill.http.v1.budgets import taken_by
from tidemill.http.v1.calls import Call, Refused, Route
from tidemill.http.v1.kafka_errors import RETRY_AFTER_S
from tidemill.http.v1.leader_requests import OutcomeUnknown, ask_leader
from tidemill.http.v1.retries import retried
from tidemill.http.v1.rights import DESCRIBE_TOPIC, READ_TOPIC, WRITE_TOPIC
from tidemill.http.v1.timer_schema import (
    CancelBody,
    Cancelled,
    FoundTimer,
    HistogramQuery,
    ListQuery,
    PartitionTimerStats,
    RescheduleBody,
    Rescheduled,
    TimerChangeBody,
    TimerHistogram,
    Timers,
    TimerStats,
    buckets_of,
    change_of,
    choice_of_body,
    choice_of_query,
    cursor_of,
    edges_of,
    order_of,
    waiting_of,
)
from tidemill.http.v1.topics import topic_of
from tidemill.metadata.image import Topic
from tidemill.peer import timer_list, timer_resolve

PARTITIONS_AT_ONCE: Final = 8  # of one request: a leader reads all that waits for each
PAGE_BYTES_MAX: Final = 4 << 20  # of memory, unless the first record takes more
_PATH: Final = "/v1/topics/{topic}/timers"
_ALL: Final = TimerChoice()
NOTHING: Final = Page((), has_more=False)
T = TypeVar("T")


class TopicTimers:
    """Asks the leaders of a timer topic's partitions.  Every method may raise Refused."""

    def __init__(self, brokers: Brokers, topic: Topic) -> None:
        kind = brokers.config_of(topic)
        if not kind.is_timer:
            raise Refused(
                409,
                f"topic {topic.name} is of kind {kind.kind}, which delivers records at once, so none of them waits; "
                "create a topic with tidemill.kind=timer",
            )
        self._brokers = brokers
        self._topic = topic

    async def listed(self, partition: int, request: timer_list.Request) -> timer_list.Response:
        ask = self._brokers.list_timers if request.max_records else None
        response: timer_list.Response = await ask_leader(
            self._brokers, self._topic, partition, timer_list.API, request, self._about, ask
        )
        return response

    async def stats(self, partition: int) -> timer_list.Response:
        return await self.listed(partition, list_request(self._topic.topic_id, partition, _ALL))

    async def page(
        self,
        choice: TimerChoice,
        query: ListQuery,
        took: Callable[[int], None],
    ) -> Page:
        """Return the chosen records of a page.  `took` is called with the bytes that are held of them now."""
        after, found = order_of(query.cursor), NOTHING

        async def ask(partition: int) -> None:
            nonlocal found
            request = list_request(
                self._topic.topic_id,
                partition,
                choice,
                count_max=query.limit,
                after=after,
                has_values=query.values,
            )
            # What others hold meanwhile is bounded, because the memory is taken in the turn in which the answer comes.
            page = page_of(partition, await self.listed(partition, request))
            found = within(merged((found, page), query.limit), PAGE_BYTES_MAX)
            del page
            took(size_of(found))

        numbers = self.partitions(choice)
        for first in range(0, len(numbers), PARTITIONS_AT_ONCE):
            asking = [asyncio.create_task(ask(it)) for it in numbers[first : first + PARTITIONS_AT_ONCE]]
            try:
                await asyncio.gather(*asking)
            except BaseException:
                found = NOTHING  # the error refers to this frame, and lives on until cycles are collected
                raise
            finally:
                for task in asking:  # after a refusal, none of them may take memory any more
                    task.cancel()
        return found

    async def each(self, choice: TimerChoice, ask: Callable[[int], Awaitable[T]]) -> list[T]:
        """Return the answers of all chosen partitions, in their order."""
        numbers, found = self.partitions(choice), list[T]()
        for first in range(0, len(numbers), PARTITIONS_AT_ONCE):
            found += await asyncio.gather(*map(ask, numbers[first : first + PARTITIONS_AT_ONCE]))
        return found

    async def resolve(self, choice: TimerChoice, change: Change, *, is_trial: bool = False) -> Outcome:
        """Cancel or reschedule the chosen records, of which some partitions may have done so if this fails."""

        async def ask(partition: int, is_trial: bool = is_trial) -> timer_resolve.Response:
            now = change.at(await self._limit_ms(partition)) if change.is_delay else change
            request = resolve_request(self._topic.topic_id, partition, choice, now, is_trial=is_trial)
            response: timer_resolve.Response = await ask_leader(
                self._brokers,
                self._topic,
                partition,
                timer_resolve.API,
                request,
                self._about,
                is_repeatable=is_trial or change.is_repeatable,
            )
            return response

        asked = self.partitions(choice)
        if is_trial or change.is_repeatable or len(asked) == 1:
            return outcome_of(await self.each(choice, ask), choice, asked)
        await self.each(choice, partial(ask, is_trial=True))
        return outcome_of(await self._each_once(choice, ask), choice, asked)

    async def _each_once(
        self, choice: TimerChoice, ask: Callable[[int], Awaitable[timer_resolve.Response]]
    ) -> list[timer_resolve.Response]:
        """
        Like `each`, for a change that may not be repeated.  Raise OutcomeUnknown if it fails in some partitions and may
        have had its effect in others: another refusal would invite to repeat it.
        """

        async def answer(partition: int) -> timer_resolve.Response | Refused:
            try:
                return await ask(partition)
            except Refused as refused:
                return refused

        answers = await self.each(choice, answer)
        found = [it for it in answers if isinstance(it, timer_resolve.Response)]
        refusals = [it for it in answers if isinstance(it, Refused)]
        if not refusals:
            return found
        moved = sum(it.changed for it in found)
        if moved or any(isinstance(it, OutcomeUnknown) for it in refusals):
            raise OutcomeUnknown(
                f"{self._about}: {moved} records or more were moved before this: {refusals[0]}; the same request would "
                "move them again: list the records, and shift those that were not moved"
            )
        raise refusals[0]

    async def _limit_ms(self, partition: int) -> int:
        """Return the time by the partition's release clock."""

        async def attempt() -> int | None:
            return timers_of(partition, await self.stats(partition)).limit_ms

        return await retried(
            attempt,
            lambda: Refused(
                503,
                f"the release clock of partition {partition} of topic {self._topic.name} is not known yet: try again, "
                "or give a time with at",
                retry_after_s=RETRY_AFTER_S,
            ),
        )

    def partitions(self, choice: TimerChoice) -> Sequence[int]:
        """Return the numbers of the partitions to ask."""
        count = self._topic.partition_count
        if choice.partition is not None and choice.partition >= count:
            raise Refused(404, f"topic {self._topic.name} has no partition {choice.partition}, only 0 to {count - 1}")
        return choice.partitions(range(count))

    @property
    def _about(self) -> str:
        return f"topic {self._topic.name}"


def size_of(page: Page) -> int:
    """Return about how many bytes of memory the records of a page take."""
    return sum(map(_size, page.records))


def within(page: Page, bytes_max: int) -> Page:
    """Return the first records of a page, as many as take up to `bytes_max` bytes of memory, but at least one."""
    size = 0
    for count, it in enumerate(page.records):
        size += _size(it)
        if count and size > bytes_max:
            return Page(page.records[:count], has_more=True)
    return page


def _size(listed: Listed) -> int:
    it = listed.record
    size = RECORD_MEMORY + sum(len(part or b"") for part in (it.key, it.value, it.timer_id))
    return size + sum(HEADER_MEMORY + len(header.name) + len(header.value or b"") for header in it.headers)


def _timers(call: Call) -> TopicTimers:
    return TopicTimers(call.brokers, topic_of(call))


async def list_waiting(call: Call) -> Timers:
    query: ListQuery = call.query
    page = await _page(call, choice_of_query(query), query)
    return Timers([waiting_of(it, has_value=query.values) for it in page.records], cursor_of(page.next))


async def _page(call: Call, choice: TimerChoice, query: ListQuery) -> Page:
    taken, held = taken_by(call.request), 0

    def took(size: int) -> None:
        nonlocal held
        taken.give_back(held)
        held = 0
        taken.response(size)
        held = size

    page = await _timers(call).page(choice, query, took)
    taken.give_back(held)  # the response takes memory of its own
    return page


async def show(call: Call) -> FoundTimer:
    timer_id = call.names["timer_id"]
    page = await _page(call, TimerChoice(ids=(timer_id.encode(),)), ListQuery(values=True))
    if not page.records:
        raise _waits_nowhere(timer_id)
    return FoundTimer([waiting_of(it, has_value=True) for it in page.records])


async def stats(call: Call) -> TimerStats:
    timers = _timers(call)

    async def ask(partition: int) -> PartitionTimerStats:
        found = timers_of(partition, await timers.stats(partition))
        return PartitionTimerStats(partition, found.waiting, found.waiting_bytes, found.next_due_ms, found.limit_ms)

    rows = await timers.each(_ALL, ask)
    return TimerStats(
        topic=call.names["topic"],
        waiting=sum(it.waiting for it in rows),
        bytes=sum(it.bytes for it in rows),
        next_due=min((it.next_due for it in rows if it.next_due is not None), default=None),
        partitions=rows,
    )


async def histogram(call: Call) -> TimerHistogram:
    query: HistogramQuery = call.query
    topic, timers, choice, now_ms = topic_of(call), _timers(call), choice_of_query(query), call.brokers.wall_ms
    edges = edges_of(query, now_ms)

    async def ask(partition: int) -> Sequence[int]:
        request = list_request(topic.topic_id, partition, choice, edges_ms=edges)
        return (await timers.listed(partition, request)).counts

    counts = [sum(column) for column in zip(*await timers.each(choice, ask), strict=True)]
    return TimerHistogram(topic.name, now_ms, buckets_of(edges, counts))


async def cancel(call: Call) -> Cancelled:
    body: CancelBody = call.body
    return Cancelled(*await _timers(call).resolve(choice_of_body(body), CANCELLED, is_trial=body.dry_run))


async def reschedule(call: Call) -> Rescheduled:
    body: RescheduleBody = call.body
    choice, change = choice_of_body(body), change_of(body)
    return Rescheduled(*await _timers(call).resolve(choice, change, is_trial=body.dry_run))


async def cancel_one(call: Call) -> Cancelled:
    return Cancelled(*await _resolve_one(call, CANCELLED))


async def reschedule_one(call: Call) -> Rescheduled:
    return Rescheduled(*await _resolve_one(call, change_of(call.body)))


async def _resolve_one(call: Call, change: Change) -> Outcome:
    timer_id = call.names["timer_id"]
    outcome = await _timers(call).resolve(TimerChoice(ids=(timer_id.encode(),)), change)
    if not outcome.changed:
        raise _waits_nowhere(timer_id)
    return outcome


def _waits_nowhere(timer_id: str) -> Refused:
    return Refused(
        404,
        f"no record waits with the id {timer_id[:300]}: it was released, cancelled or replaced, or it never existed",
    )


ROUTES: Final = (
    Route(
        method="GET",
        path=_PATH,
        access=READ_TOPIC,
        handler=list_waiting,
        query=ListQuery,
        response=Timers,
        summary="List records that wait, in the order in which they are due.",
    ),
    Route(
        method="GET",
        path=f"{_PATH}/stats",
        access=DESCRIBE_TOPIC,
        handler=stats,
        response=TimerStats,
        summary="Show how much waits in each partition.",
    ),
    Route(
        method="GET",
        path=f"{_PATH}/histogram",
        access=DESCRIBE_TOPIC,
        handler=histogram,
        query=HistogramQuery,
        response=TimerHistogram,
        summary="Count the records that wait by when they are due.",
    ),
    Route(
        method="GET",
        path=f"{_PATH}/{{timer_id}}",
        access=READ_TOPIC,
        handler=show,
        response=FoundTimer,
        summary="Show what waits with an id.",
    ),
    Route(
        method="DELETE",
        path=f"{_PATH}/{{timer_id}}",
        access=WRITE_TOPIC,
        handler=cancel_one,
        response=Cancelled,
        summary="Cancel what waits with an id: it is not delivered.",
    ),
    Route(
        method="PATCH",
        path=f"{_PATH}/{{timer_id}}",
        access=WRITE_TOPIC,
        handler=reschedule_one,
        body=TimerChangeBody,
        example={"delay": "30m"},
        response=Rescheduled,
        summary="Change when what waits with an id is due.",
    ),
    Route(
        method="POST",
        path=f"{_PATH}:cancel",
        access=WRITE_TOPIC,
        handler=cancel,
        body=CancelBody,
        example={"key_prefix": "order-", "due_before": "2027-01-31T08:00:00Z", "dry_run": True},
        response=Cancelled,
        summary="Cancel records that wait.",
    ),
    Route(
        method="POST",
        path=f"{_PATH}:reschedule",
        access=WRITE_TOPIC,
        handler=reschedule,
        body=RescheduleBody,
        example={"ids": ["order-17", "order-18"], "shift": "1h"},
        response=Rescheduled,
        summary="Change when records that wait are due.",
    ),
)
