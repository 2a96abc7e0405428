"""What requests about timers choose, and when records are due then."""

from typing import Any

import msgspec
import pytest

from tidemill.client.timer_choice import Change, DueOrder, TimerChoice, delayed_by, due_at, shifted_by
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.timer_schema import (
    BUCKETS,
    HistogramQuery,
    ListQuery,
    RescheduleBody,
    TimerBucket,
    buckets_of,
    change_of,
    choice_of_body,
    choice_of_query,
    cursor_of,
    edges_of,
    order_of,
)
from tidemill.peer.timer_resolve import Selection

NOW_MS = 1_800_000_000_000


def body(**fields: Any) -> RescheduleBody:
    return msgspec.convert(fields, RescheduleBody)


def test_a_query_chooses_by_all_of_its_properties() -> None:
    query = ListQuery(key="k", key_prefix="p", id="i", due_from="1970-06-01T00:00:00.001Z", due_before=f"{NOW_MS}")

    assert TimerChoice(
        ids=(b"i",), key=b"k", key_prefix=b"p", due_from_ms=13_046_400_001, due_before_ms=NOW_MS
    ) == choice_of_query(query)
    assert TimerChoice() == choice_of_query(ListQuery())


def test_a_time_before_1970_is_as_any_other() -> None:
    """Schedules count from it, and edges before 1970 differ.  As bounds, all of them are those of what is due at 0."""
    query = ListQuery(due_from="1969-12-31T08:00:00Z", due_before="-1")

    assert Selection(due_from_ms=0, due_before_ms=0) == choice_of_query(query).selection
    assert due_at(-1) == change_of(body(all=True, at=-1))
    assert due_at(-57_600_000) == change_of(body(all=True, at="1969-12-31T08:00:00Z"))
    assert [-5, -3, 0] == edges_of(HistogramQuery(edges="-5,-3,0"), NOW_MS)


def test_a_key_may_be_the_word_null() -> None:
    """
    In a query, every value is text.
    """
    query = msgspec.convert({"key": "null", "partition": "2"}, ListQuery, strict=False)

    assert TimerChoice(key=b"null", partition=2) == choice_of_query(query)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"arrivals": [[0, 5], [1, 6]]}, TimerChoice(arrivals=[(0, 5), (1, 6)])),
        ({"ids": ["a", {"base64": "/w=="}]}, TimerChoice(ids=[b"a", b"\xff"])),
        ({"key_prefix": "k", "partition": 1}, TimerChoice(key_prefix=b"k", partition=1)),
        ({"all": True}, TimerChoice()),
        ({"all": True, "partition": 1}, TimerChoice(partition=1)),
    ],
)
def test_a_body_chooses_in_one_way(fields: dict[str, Any], expected: TimerChoice) -> None:
    found = choice_of_body(body(**fields))

    assert (expected.arrivals or [], [*expected.ids]) == (found.arrivals, found.ids)
    assert (expected.selection, expected.partition) == (found.selection, found.partition)


@pytest.mark.parametrize("prefix", ["", {"base64": ""}])
def test_an_empty_prefix_does_not_choose_all_records(prefix: object) -> None:
    """A program whose variable has no value would cancel whatever waits."""
    with pytest.raises(Refused, match="key_prefix is empty"):
        choice_of_body(body(key_prefix=prefix, due_before=NOW_MS))
    assert b"" == choice_of_body(body(key="")).key


def test_a_key_that_is_not_base64_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"Invalid base64 encoded string - at `\$\.key\.base64`"):
        body(key={"base64": "%"})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"at": NOW_MS}, due_at(NOW_MS)),
        ({"at": "2027-01-15T09:00:00+01:00"}, due_at(NOW_MS)),
        ({"delay": "5m"}, delayed_by(300_000)),
        ({"delay": 0}, delayed_by(0)),
        ({"shift": -5}, shifted_by(-5)),
        ({"shift": "-5m"}, shifted_by(-300_000)),
        ({"shift": "+1h"}, shifted_by(3_600_000)),
        ({"shift": "1h"}, shifted_by(3_600_000)),
    ],
)
def test_a_change_has_one_time(fields: dict[str, Any], expected: Change) -> None:
    assert expected == change_of(body(**fields))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "exactly one of at, delay and shift"),
        ({"at": NOW_MS, "delay": 1}, "exactly one of at, delay and shift"),
        ({"at": "noon"}, "^at: 'noon': write milliseconds since the epoch, or a time such as"),
        ({"delay": "soon"}, "^delay: 'soon': write whole milliseconds, or a number and ms"),
        ({"shift": "--5m"}, "^shift: '--5m': write ms, or a number and ms, s, m, h or d, such as -5m"),
        ({"shift": "999999999999d"}, "^shift"),
    ],
)
def test_a_time_that_cannot_be_one_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(Refused, match=problem):
        change_of(body(**fields))


def test_buckets_begin_now_and_edges_are_times() -> None:
    assert [NOW_MS + it for it in (1_000, 10_000)] == edges_of(HistogramQuery(), NOW_MS)[:2]
    assert len(BUCKETS.split(",")) == len(edges_of(HistogramQuery(), NOW_MS))
    assert [NOW_MS + 5, NOW_MS + 1_000] == edges_of(HistogramQuery(buckets="5,1s"), NOW_MS)
    assert [NOW_MS + 5] == edges_of(HistogramQuery(edges=f"{NOW_MS + 5}"), NOW_MS)


@pytest.mark.parametrize(
    "query",
    [
        HistogramQuery(buckets=""),
        HistogramQuery(edges="1s"),
        HistogramQuery(buckets="1s", edges=f"{NOW_MS}"),
    ],
)
def test_bad_buckets_are_refused(query: HistogramQuery) -> None:
    with pytest.raises(Refused, match=r"^(buckets|edges)"):
        edges_of(query, NOW_MS)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (HistogramQuery(buckets="1s,1h,1m"), "buckets: 1m follows 1h, but is not later; give them ascending"),
        (HistogramQuery(edges="-3,-5"), "edges: -5 follows -3, but is not later"),
        (HistogramQuery(buckets="1h,60m"), "buckets: 60m follows 1h, but is not later; give them ascending"),
        (HistogramQuery(edges=f"{NOW_MS},{NOW_MS - 1}"), f"edges: {NOW_MS - 1} follows {NOW_MS}, but is not later"),
        (HistogramQuery(buckets=",".join(f"{it}" for it in range(101))), "buckets: there are 101; give at most 100"),
    ],
)
def test_what_does_not_ascend_is_named(query: HistogramQuery, says: str) -> None:
    with pytest.raises(Refused, match=f"^{says}"):
        edges_of(query, NOW_MS)


def test_there_is_a_bucket_before_the_first_edge_and_one_behind_the_last() -> None:
    assert [TimerBucket(None, 5, 1), TimerBucket(5, 9, 2), TimerBucket(9, None, 3)] == buckets_of([5, 9], [1, 2, 3])


def test_a_cursor_says_where_a_page_begins() -> None:
    order = DueOrder(NOW_MS, 3, (1 << 63) - 1)

    assert order == order_of(cursor_of(order) or "")
    for text in ("", "1-2", "1-2-3-4", "a-b-c", f"1-2-{1 << 63}", "1-2--3"):
        with pytest.raises(Refused, match="is not a cursor"):
            order_of(text)
