"""What waits is listed, counted, cancelled and rescheduled over HTTP; every broker answers for every partition."""

import time
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.http.http_client import HttpClient, wait_for
from tests.integration.timers.conftest import HOUR_MS, PARTITIONS, TimerTopic
from tidemill.timer.schedule import BATCH_SCHEDULES_MAX

COUNT = 10
BROKERS = range(3)


def values(records: list[dict[str, Any]]) -> list[str]:
    return [it["value"] for it in records]


@pytest.mark.parametrize("at", BROKERS)
def test_every_broker_lists_all_partitions_in_the_order_of_due_times(topic: TimerTopic, at: int) -> None:
    """
    A record has its place, its time, its id and, if asked for, its value.
    """
    written = topic.wait_for_hours(COUNT)

    found = topic.listed(at, "values=true")

    assert [f"v{it}" for it in range(COUNT)] == values(found)
    for number, record in enumerate(found):
        assert topic.base_ms + (number + 1) * HOUR_MS == record["due"]
        assert (f"t{number}", f"k{number}") == (record["timer_id"], record["key"])
        assert written[number]["partition"] == record["partition"]
        assert ["tidemill-timer-id", f"t{number}"] in record["headers"]
        assert abs(record["timestamp"] - topic.base_ms) < 60_000
        assert 0 < record["size"] < 500
    assert {False} == {"value" in it for it in topic.listed(at)}
    assert [] == topic.released(at)


def test_pages_have_every_record_once(topic: TimerTopic) -> None:
    topic.wait_for_hours(COUNT)
    topic.produce(*({"value": "same", "at": topic.base_ms + HOUR_MS, "partition": it % PARTITIONS} for it in range(9)))

    whole = topic.listed()
    pages, cursor = [], ""
    for turn in range(COUNT + 9):
        page = topic.brokers[turn % 3].ok("GET", f"{topic.path}?limit=4{cursor}")
        assert len(page["records"]) <= 4
        pages += page["records"]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"

    assert COUNT + 9 == len(whole)
    assert whole == pages
    assert sorted(whole, key=lambda it: (it["due"], it["partition"], it["arrival"])) == whole


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("key=k3", [3]),
        ("key_prefix=k", [*range(COUNT)]),
        ("key_prefix=x", []),
        ("id=t4", [4]),
        ("partition=1", [1, 4, 7]),
        ("key_prefix=k&partition=1&due_from={5}", [4, 7]),
        ("due_from={3}&due_before={5}", [2, 3]),
    ],
)
def test_records_are_listed_by_their_properties(topic: TimerTopic, query: str, expected: list[int]) -> None:
    topic.wait_for_hours(COUNT)
    for hour in range(COUNT):
        query = query.replace(f"{{{hour}}}", str(topic.base_ms + hour * HOUR_MS))

    assert [f"v{it}" for it in expected] == values(topic.listed(1, f"values=true&{query}"))


def test_times_may_be_those_of_rfc_3339(topic: TimerTopic) -> None:
    topic.wait_for_hours(COUNT)
    third = datetime.fromtimestamp((topic.base_ms + 3 * HOUR_MS) / 1_000, UTC).isoformat(timespec="milliseconds")

    assert COUNT - 2 == len(topic.listed(0, f"due_from={third.replace('+', '%2B')}"))


def test_keys_and_values_that_are_not_text_are_base64(topic: TimerTopic) -> None:
    data = {"base64": b64encode(b"\xff\x00").decode()}
    topic.produce({"value": data, "key": data, "delay": "1h"})

    (found,) = topic.listed(2, "values=true")

    assert (data, data, None) == (found["key"], found["value"], found["timer_id"])
    body = {"key": data, "dry_run": True}
    assert 1 == topic.brokers[0].ok("POST", f"{topic.path}:cancel", body)["cancelled"]


def test_what_waits_is_counted(topic: TimerTopic) -> None:
    assert (0, 0, None) == tuple(
        topic.brokers[0].ok("GET", f"{topic.path}/stats")[it] for it in ("waiting", "bytes", "next_due")
    )
    topic.wait_for_hours(COUNT)

    for client in topic.brokers:
        found = client.ok("GET", f"{topic.path}/stats")
        assert (topic.name, COUNT, topic.base_ms + HOUR_MS) == (found["topic"], found["waiting"], found["next_due"])
        rows = found["partitions"]
        assert [(0, 4), (1, 3), (2, 3)] == [(it["partition"], it["waiting"]) for it in rows]
        assert found["bytes"] == sum(it["bytes"] for it in rows) > COUNT
        assert [topic.base_ms + (it + 1) * HOUR_MS for it in range(3)] == [it["next_due"] for it in rows]
        assert {True} == {abs(it["now"] - time.time() * 1_000) < 10_000 for it in rows}


def test_due_times_are_counted_in_buckets(topic: TimerTopic) -> None:
    topic.wait_for_hours(COUNT)
    edges = [topic.base_ms + it * HOUR_MS for it in (2, 5)]

    found = topic.brokers[2].ok("GET", f"{topic.path}/histogram?edges={edges[0]},{edges[1]}")
    assert [(None, edges[0], 1), (edges[0], edges[1], 3), (edges[1], None, 6)] == [
        (it["from"], it["before"], it["waiting"]) for it in found["buckets"]
    ]
    found = topic.brokers[0].ok("GET", f"{topic.path}/histogram?key_prefix=k&buckets=30m,150m,1d")
    assert [0, 2, COUNT - 2, 0] == [it["waiting"] for it in found["buckets"]]
    assert found["now"] + 30 * 60_000 == found["buckets"][0]["before"]
    found = topic.brokers[0].ok("GET", f"{topic.path}/histogram")
    assert [1_000, 10_000] == [it["before"] - found["now"] for it in found["buckets"][:2]]
    assert (COUNT, 10) == (sum(it["waiting"] for it in found["buckets"]), len(found["buckets"]))


@pytest.mark.parametrize("at", BROKERS)
def test_a_timer_is_shown_moved_and_cancelled_by_its_id(topic: TimerTopic, at: int) -> None:
    """
    The broker that is asked need not lead the partition, and does not know in which one the timer waits.
    """
    topic.wait_for_hours(COUNT)
    client = topic.brokers[at]

    (shown,) = client.ok("GET", f"{topic.path}/t5")["records"]
    assert ("v5", topic.base_ms + 6 * HOUR_MS) == (shown["value"], shown["due"])

    moved = {"rescheduled": 1, "already_released": 0, "unknown": 0}
    assert moved == client.ok("PATCH", f"{topic.path}/t5", {"at": topic.base_ms + 99 * HOUR_MS})
    assert "t5" == topic.listed()[-1]["timer_id"]
    assert moved == client.ok("PATCH", f"{topic.path}/t5", {"shift": "-98h"})
    assert [1, 1] == topic.hours()[:2]
    assert moved == client.ok("PATCH", f"{topic.path}/t5", {"delay": 0})
    wait_for(lambda: ["v5"] == values(topic.released()), "a timer that is due was not released")

    assert {"cancelled": 1, "already_released": 0, "unknown": 0} == client.ok("DELETE", f"{topic.path}/t6")
    left = [f"t{it}" for it in range(COUNT) if it not in (5, 6)]
    assert left == [it["timer_id"] for it in topic.listed(at)]


def test_a_delay_counts_from_now(topic: TimerTopic) -> None:
    topic.wait_for_hours(1)
    before = time.time_ns() // 1_000_000

    topic.brokers[1].ok("PATCH", f"{topic.path}/t0", {"delay": "2h"})

    (found,) = topic.listed()
    assert before - 2_000 <= found["due"] - 2 * HOUR_MS <= time.time() * 1_000 + 2_000


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("DELETE", None), ("PATCH", {"delay": "1m"})])
def test_an_id_with_which_nothing_waits_is_not_found(topic: TimerTopic, method: str, body: Any) -> None:
    """
    Whether it never existed, was cancelled, or was released.
    """
    topic.wait_for_hours(2)
    topic.brokers[0].ok("DELETE", f"{topic.path}/t0")
    topic.brokers[0].ok("PATCH", f"{topic.path}/t1", {"at": topic.base_ms})
    wait_for(lambda: not topic.waiting(), "a timer that is due was not released")

    for timer_id in ("t0", "t1", "none"):
        answered = topic.brokers[2].send(method, f"{topic.path}/{timer_id}", body)
        assert 404 == answered.status, answered
        assert f"no record waits with the id {timer_id}: it was released, cancelled" in answered.body["detail"]


def test_an_id_is_found_in_every_partition(topic: TimerTopic) -> None:
    """
    After partitions were added, a key may belong to another one: the same id then waits in both.
    """
    topic.produce(*({"value": "v", "timer_id": "both", "delay": "1h", "partition": it} for it in (0, 2)))

    assert {0, 2} == {it["partition"] for it in topic.brokers[0].ok("GET", f"{topic.path}/both")["records"]}
    assert 2 == topic.brokers[1].ok("DELETE", f"{topic.path}/both")["cancelled"]
    assert 0 == topic.waiting()


def test_chosen_records_are_cancelled(topic: TimerTopic) -> None:
    """
    A dry run counts them.  What was named and is over, or never was, is said.
    """
    topic.wait_for_hours(COUNT)
    names = [it["arrival"] for it in topic.listed() if it["partition"] == 1]

    def cancel(broker: int, **body: Any) -> list[int]:
        found = topic.brokers[broker].ok("POST", f"{topic.path}:cancel", body)
        return [found[it] for it in ("cancelled", "already_released", "unknown")]

    assert [3, 0, 0] == cancel(0, due_before=topic.base_ms + 3 * HOUR_MS + 1, dry_run=True)
    assert COUNT == topic.waiting()
    assert [3, 0, 0] == cancel(1, due_before=topic.base_ms + 3 * HOUR_MS + 1)
    assert [2, 1, 2] == cancel(2, arrivals=[[1, it] for it in (*names, 99)] + [[77, 0]])
    assert [1, 0, 2] == cancel(0, ids=["t3", "t0", "none"])
    assert [1, 0, 0] == cancel(0, key="k5")
    assert [f"t{it}" for it in (6, 8, 9)] == [it["timer_id"] for it in topic.listed()]
    assert [2, 0, 0] == cancel(0, all=True, partition=0)
    assert [1, 0, 0] == cancel(0, all=True)
    assert ([], []) == (topic.listed(), topic.released())


def test_chosen_records_are_rescheduled(topic: TimerTopic) -> None:
    topic.wait_for_hours(4)

    def reschedule(broker: int, **body: Any) -> list[int]:
        found = topic.brokers[broker].ok("POST", f"{topic.path}:reschedule", body)
        return [found[it] for it in ("rescheduled", "already_released", "unknown")]

    assert [2, 0, 1] == reschedule(0, ids=["t0", "t1", "none"], shift=10 * HOUR_MS)
    assert [3, 4, 11, 12] == topic.hours()
    assert [4, 0, 0] == reschedule(1, all=True, shift="-1h", dry_run=True)
    assert [4, 0, 0] == reschedule(1, all=True, shift="-1h")
    assert [2, 3, 10, 11] == topic.hours()
    assert [1, 0, 0] == reschedule(2, key="k3", at=topic.base_ms + 50 * HOUR_MS)
    assert [2, 10, 11, 50] == topic.hours()


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        (":cancel", {}, "no records are chosen"),
        (":cancel", {"partition": 1}, "no records are chosen"),
        (":cancel", {"all": True, "key": "k"}, "in two ways"),
        (":cancel", {"ids": ["a"], "arrivals": [[0, 1]]}, "in two ways"),
        (":cancel", {"arrivals": [[0, 1]], "partition": 0}, "leave partition 0 out"),
        (":cancel", {"due_before": "tomorrow"}, "due_before: 'tomorrow': write milliseconds since the epoch"),
        (":cancel", {"due_before": 1_700_000_000}, "look like seconds"),
        (":reschedule", {"all": True}, "exactly one of at, delay and shift"),
        (":reschedule", {"all": True, "at": 10**12, "shift": 1}, "exactly one of at, delay and shift"),
        (":reschedule", {"all": True, "shift": "soon"}, "shift: 'soon'"),
    ],
)
def test_a_body_that_does_not_choose_is_refused(topic: TimerTopic, path: str, body: Any, problem: str) -> None:
    answered = topic.brokers[0].send("POST", f"{topic.path}{path}", body)

    assert 400 == answered.status
    assert problem in answered.body["detail"]


@pytest.mark.parametrize("change", [{"at": "1969-12-31T08:00:00Z"}, {"at": -57_600_000}, {"shift": "-36500d"}])
def test_a_schedule_that_is_moved_before_1970_keeps_its_hour(topic: TimerTopic, change: dict[str, Any]) -> None:
    """Its record comes at once, and then at 08:00 again."""
    day_ms = 24 * HOUR_MS
    due = (int(time.time()) * 1_000 // day_ms + 2) * day_ms + 8 * HOUR_MS
    topic.produce({"value": "v", "key": "k", "timer_id": "daily", "schedule": "every 1d", "at": due})

    moved = topic.brokers[0].ok("PATCH", f"{topic.path}/daily", change)

    assert 1 == moved["rescheduled"]

    def following() -> list[int]:
        return [it["due"] for it in topic.listed(1) if it["due"] > due - 3 * day_ms]

    wait_for(lambda: bool(following()), "the schedule did not go on")
    assert [8 * HOUR_MS] == [it % day_ms for it in following()]


def test_a_request_may_have_more_schedules_than_a_batch(topic: TimerTopic) -> None:
    """All of them for one partition, whose leader is another broker than the one that is asked, or the same."""
    count = 2 * BATCH_SCHEDULES_MAX + 1
    for partition in range(PARTITIONS):
        topic.produce(
            *(
                {"partition": partition, "timer_id": f"t{it}", "schedule": "every 1d", "at": topic.base_ms + HOUR_MS}
                for it in range(count)
            )
        )

    assert PARTITIONS * count == topic.waiting(1)


def test_unknown_partitions_and_cursors_are_refused(topic: TimerTopic) -> None:
    for query, status, problem in (
        ("partition=9", 404, "no partition 9, only 0 to 2"),
        ("cursor=x", 400, "cursor=x is not a cursor"),
        ("limit=1001", 400, "limit"),
    ):
        answered = topic.brokers[0].send("GET", f"{topic.path}?{query}")
        assert (status, True) == (answered.status, problem in answered.body["detail"]), answered
    answered = topic.brokers[0].send("GET", f"{topic.path}/histogram?buckets=1h,1m")
    assert "ascending" in answered.body["detail"]


def test_a_time_beyond_the_topics_limit_is_refused(topic: TimerTopic) -> None:
    topic.wait_for_hours(1)
    limit = {"configs": {"tidemill.max.delay.ms": str(2 * HOUR_MS)}}
    assert 204 == topic.brokers[0].send("PATCH", f"/v1/topics/{topic.name}", limit).status

    def is_refused() -> bool:
        answered = topic.brokers[0].send("PATCH", f"{topic.path}/t0", {"delay": "3h"})
        return answered.status == 400 and "tidemill.max.delay.ms=" in answered.body["detail"]

    wait_for(is_refused, "a time beyond tidemill.max.delay.ms was accepted")


def test_an_id_may_have_slashes(topic: TimerTopic) -> None:
    """
    Servers decode `%2F` before they look for the path.
    """
    broker, path = topic.brokers[0], f"{topic.path}/cart%2F17%2F"
    record = {"key": "k", "delay": "1h", "timer_id": "cart/17/"}
    broker.ok("POST", f"/v1/topics/{topic.name}/records", {"records": [record]})

    assert ["cart/17/"] == [it["timer_id"] for it in broker.ok("GET", path)["records"]]
    assert 1 == broker.ok("PATCH", path, {"delay": "2h"})["rescheduled"]
    assert 1 == broker.ok("DELETE", path)["cancelled"]
    missing = broker.send("GET", path)
    assert (404, True) == (missing.status, "no record waits with the id cart/17/" in missing.body["detail"])


@pytest.mark.parametrize("path", ["", "/stats", "/histogram", "/some-id"])
def test_a_topic_of_another_kind_has_no_timers(brokers: list[HttpClient], path: str) -> None:
    brokers[0].send("POST", "/v1/topics", {"name": "plain"})
    wait_for(lambda: brokers[1].send("GET", "/v1/topics/plain").status == 200, "a topic is not known")

    answered = brokers[1].send("GET", f"/v1/topics/plain/timers{path}")

    assert 409 == answered.status
    assert "topic plain is of kind log" in answered.body["detail"]
    assert "tidemill.kind=timer" in answered.body["detail"]


def test_what_is_cancelled_never_comes(topic: TimerTopic) -> None:
    """
    Records are cancelled while they become due.  Each is either delivered, and its cancel says that nothing waits, or
    it is cancelled and never delivered.
    """
    count = 300
    topic.produce(
        *({"value": f"{it}", "timer_id": f"t{it}", "delay": it * 10, "partition": it % 3} for it in range(count)),
        {"value": "late", "key": "late", "timer_id": "late", "delay": "1h"},
    )
    wait_for(lambda: topic.released(), "a record that is due was not released")
    statuses: dict[int | str, int] = {
        it: topic.brokers[it % 3].send("DELETE", f"{topic.path}/t{it}").status for it in range(count)
    }
    statuses["late"] = topic.brokers[0].send("DELETE", f"{topic.path}/late").status
    wait_for(lambda: not topic.waiting(), "a record that is due was not released")

    assert {200, 404} == set(statuses.values())
    assert {str(it) for it, status in statuses.items() if status == 404} == set(values(topic.released()))
    assert len(topic.released()) == len(set(values(topic.released())))
