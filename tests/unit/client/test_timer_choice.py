"""What is asked of each partition of a timer topic, and how the answers become one."""

import itertools
from collections.abc import Sequence

import pytest

from tidemill.client.timer_choice import (
    CANCELLED,
    DueOrder,
    Listed,
    Outcome,
    Page,
    TimerChoice,
    WaitingRecord,
    delayed_by,
    due_at,
    list_request,
    merged,
    outcome_of,
    resolve_request,
    shifted_by,
    timers_of,
)
from tidemill.model.topic import TopicId
from tidemill.peer import timer_list, timer_resolve
from tidemill.peer.timer_resolve import Selection

TOPIC = TopicId(bytes(16))


def page(*places: tuple[int, int, int], has_more: bool = False) -> Page:
    records = [Listed(DueOrder(*it), record(it[2], it[0])) for it in places]
    return Page(records, has_more)


def record(arrival: int, due_ms: int) -> WaitingRecord:
    return WaitingRecord(arrival=arrival, due_ms=due_ms, timestamp_ms=0, size_bytes=1)


def places(of: Page) -> list[tuple[int, ...]]:
    return [tuple(it.order) for it in of.records]


def test_records_of_partitions_are_merged_by_due_time_partition_and_arrival() -> None:
    found = merged([page((5, 1, 0), (7, 1, 2)), page((5, 0, 9), (7, 0, 1), (7, 0, 3))], 10)

    assert [(5, 0, 9), (5, 1, 0), (7, 0, 1), (7, 0, 3), (7, 1, 2)] == places(found)
    assert not found.has_more and found.next is None


def test_a_merged_page_ends_where_a_list_has_more() -> None:
    """
    Records behind that place may come after records that the leader has not sent yet.
    """
    found = merged([page((5, 1, 0), has_more=True), page((4, 0, 0), (6, 0, 1))], 10)

    assert [(4, 0, 0), (5, 1, 0)] == places(found)
    assert (5, 1, 0) == found.next


def test_a_merged_page_has_so_many_records() -> None:
    whole, cut = (merged([page((5, 1, 0)), page((6, 0, 1))], count) for count in (2, 1))

    assert (2, None) == (len(whole.records), whole.next)
    assert ([(5, 1, 0)], (5, 1, 0)) == (places(cut), cut.next)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pages_have_every_record_once_in_order(size: int) -> None:
    """
    Each leader continues behind the last record of the page before, wherever that record was.
    """
    waiting = {
        0: [(1, 3), (2, 0), (2, 4), (4, 1)],
        1: [(2, 0), (2, 1), (2, 5), (3, 2)],
        2: [(2, 7)],
    }

    def answer(partition: int, asked: timer_list.Request) -> Page:
        after = (asked.after_due_ms, asked.after_arrival)
        behind = [it for it in waiting[partition] if it > after]
        return page(
            *((due, partition, arrival) for due, arrival in behind[:size]), has_more=len(behind) > asked.max_records
        )

    found: list[tuple[int, ...]] = []
    after = None
    for _ in itertools.count():
        asked = {it: list_request(TOPIC, it, TimerChoice(), count_max=size, after=after) for it in waiting}
        one = merged([answer(it, request) for it, request in asked.items()], size)
        found += places(one)
        if (after := one.next) is None:
            break

    assert sorted((due, number, arrival) for number, rows in waiting.items() for due, arrival in rows) == found


def test_ids_are_asked_of_every_partition() -> None:
    """
    A key may belong to another partition after partitions were added.
    """
    assert [0, 1, 2] == TimerChoice(ids=[b"a"]).partitions(range(3))
    assert [0, 1, 2] == TimerChoice(key=b"k").partitions(range(3))
    assert [2] == TimerChoice(ids=[b"a"], partition=2).partitions(range(3))
    assert [0, 2] == TimerChoice(arrivals=[(2, 5), (0, 1), (2, 4), (7, 1)]).partitions(range(3))


def test_named_records_need_no_selection() -> None:
    """
    A leader knows them without reading all that waits; with a key, it has to read.
    """
    by_arrival = TimerChoice(arrivals=[(1, 5), (1, 4), (1, 5), (0, 1)])
    request = resolve_request(TOPIC, 1, by_arrival, CANCELLED, is_trial=False)
    assert ([4, 5], None, timer_resolve.CANCEL) == ([*request.arrivals], request.selection, request.operation)

    request = resolve_request(TOPIC, 0, TimerChoice(ids=[b"a", b"b", b"a"]), due_at(9), is_trial=True)
    assert ([b"a", b"b"], None, timer_resolve.RESCHEDULE, 9, True) == (
        request.timer_ids,
        request.selection,
        request.operation,
        request.due_ms,
        request.is_trial,
    )

    request = resolve_request(TOPIC, 0, TimerChoice(ids=[b"a"], key_prefix=b"k"), shifted_by(-5), is_trial=False)
    assert (Selection(key_prefix=b"k"), timer_resolve.SHIFT, -5) == (
        request.selection,
        request.operation,
        request.due_ms,
    )

    request = resolve_request(TOPIC, 0, TimerChoice(), CANCELLED, is_trial=False)
    assert Selection() == request.selection, "everything"


def test_a_delay_counts_from_the_release_clock() -> None:
    assert due_at(1_030) == delayed_by(30).at(1_000)
    assert due_at(30) == due_at(30).at(1_000)


@pytest.mark.parametrize(
    ("choice", "asked", "responses", "expected"),
    [
        (TimerChoice(ids=[b"a", b"b", b"b"]), [0, 1], [(1, 0, 1), (0, 0, 2)], Outcome(1, 0, 1)),
        (TimerChoice(ids=[b"a"]), [0, 1], [(1, 0, 0), (1, 0, 0)], Outcome(2, 0, 0)),
        (TimerChoice(arrivals=[(0, 1), (1, 1), (1, 2)]), [0, 1], [(1, 0, 0), (0, 1, 1)], Outcome(1, 1, 1)),
        (TimerChoice(arrivals=[(0, 1), (9, 1)]), [0], [(1, 0, 0)], Outcome(1, 0, 1)),
        (TimerChoice(key=b"k"), [0, 1], [(3, 0, 0), (4, 0, 0)], Outcome(7, 0, 0)),
    ],
    ids=["ids", "id in two partitions", "arrivals", "no such partition", "selection"],
)
def test_outcomes_of_partitions_are_added(
    choice: TimerChoice, asked: Sequence[int], responses: Sequence[tuple[int, int, int]], expected: Outcome
) -> None:
    """
    An id is unknown if it waits in no partition, and an arrival if its partition does not exist.
    """
    given = [timer_resolve.Response(changed=changed, over=over, unknown=new) for changed, over, new in responses]

    assert expected == outcome_of(given, choice, asked)


def test_what_a_leader_does_not_know_is_none() -> None:
    found = timers_of(1, timer_list.Response(waiting=0))
    assert (1, None, None) == (found.partition, found.next_due_ms, found.limit_ms)
