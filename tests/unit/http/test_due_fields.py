"""The fields that say when a record is due and when it recurs, and the headers that they become."""

from typing import Any

import msgspec
import pytest

from tidemill.http.v1.due_fields import timer_headers
from tidemill.http.v1.raw_values import ValueQuery
from tidemill.http.v1.records import NewRecord
from tidemill.model.topic_config import compile_topic_config
from tidemill.timer.due_time import DUE_MS_MAX, YEAR_1_MS, BadDueTime

NOW_MS = 1_700_000_000_000
LOG, TIMER = compile_topic_config(), compile_topic_config({"tidemill.kind": "timer"})
SHORT = compile_topic_config({"tidemill.kind": "timer", "tidemill.max.delay.ms": "60000"})


def made(
    delay: Any = None, at: Any = None, timer_id: Any = None, *headers: tuple[str, bytes | None], config: Any
) -> Any:
    return made_of({"delay": delay, "at": at, "timer_id": timer_id}, *headers, config=config)


def made_of(fields: dict[str, Any], *headers: tuple[str, bytes | None], config: Any) -> Any:
    return timer_headers(NewRecord(**fields), headers=headers, config=config, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ((), []),
        (("5m",), [("tidemill-delay", b"5m")]),
        ((90_000,), [("tidemill-delay", b"90000")]),
        (("90000",), [("tidemill-delay", b"90000")]),
        ((0,), [("tidemill-delay", b"0")]),
        ((None, "2027-01-31T08:00:00Z"), [("tidemill-deliver-at", b"2027-01-31T08:00:00Z")]),
        ((None, 1_801_382_400_000), [("tidemill-deliver-at", b"1801382400000")]),
        ((None, -1), [("tidemill-deliver-at", b"-1")]),
        ((None, "1960-01-01T00:00:00Z"), [("tidemill-deliver-at", b"1960-01-01T00:00:00Z")]),
        ((None, None, "ä"), [("tidemill-timer-id", "ä".encode())]),
        (("1s", None, "x"), [("tidemill-delay", b"1s"), ("tidemill-timer-id", b"x")]),
    ],
)
def test_a_field_becomes_a_header(fields: Any, headers: Any) -> None:
    """With the value that the client has given: the leader reads it."""
    assert headers == made(*fields, config=TIMER)


@pytest.mark.parametrize("at", [YEAR_1_MS, -1, 0, DUE_MS_MAX])
def test_a_time_may_be_any_number_of_ms_from_the_year_1_to_the_year_9999(at: int) -> None:
    """In a record and in a query, both as they are decoded; what is before 1970 is past like any other time."""
    record = msgspec.json.decode(b'{"at": %d}' % at, type=NewRecord)
    query = msgspec.convert({"at": f"{at}"}, ValueQuery, strict=False)

    for fields in (record, query):
        assert [("tidemill-deliver-at", b"%d" % at)] == timer_headers(fields, headers=(), config=TIMER, now_ms=NOW_MS)


@pytest.mark.parametrize("at", [YEAR_1_MS - 1, DUE_MS_MAX + 1])
def test_a_time_beyond_these_years_is_refused_as_it_is_decoded(at: int) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"`\$\.at`"):
        msgspec.json.decode(b'{"at": %d}' % at, type=NewRecord)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (("soon",), "delay: tidemill-delay='soon': write whole milliseconds, or a number"),
        ((None, "tomorrow"), "at: tidemill-deliver-at='tomorrow': write milliseconds since the epoch, or a time"),
        ((None, 1_700_000_000), "at: tidemill-deliver-at=1700000000: write milliseconds since the epoch"),
        ((None, "2027-01-31T08:00:00"), "at: tidemill-deliver-at='2027-01-31T08:00:00'"),
        (("1s", 1_801_382_400_000), "delay and at: give one of them"),
        ((None, None, "ä" * 129), "timer_id=ä"),
        (
            ("1s", None, None, ("tidemill-delay", b"2s")),
            "delay: the header tidemill-delay is there 2 times",
        ),
        ((None, None, "x", ("tidemill-delay", b"soon")), "headers: tidemill-delay='soon'"),
        ((None, None, None, ("tidemill-deliver-at", None)), "headers: tidemill-deliver-at=null"),
    ],
)
def test_a_bad_value_is_named_with_its_field(fields: Any, says: str) -> None:
    """And with what to write instead; headers that the client has given itself are read as well."""
    with pytest.raises(BadDueTime) as refused:
        made(*fields, config=TIMER)

    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "shown"), [(("5m",), "delay=5m"), ((None, 7), "at=7"), ((None, None, "x"), "timer_id=x")]
)
def test_only_timer_topics_have_the_fields(fields: Any, shown: str) -> None:
    """On another topic, a field would have no effect, so it is refused with the fix."""
    with pytest.raises(BadDueTime) as refused:
        made(*fields, config=LOG)

    assert str(refused.value).startswith(f"{shown}: the topic is of kind log")
    assert str(refused.value).endswith("create the topic with tidemill.kind=timer")


def test_a_new_time_is_checked_also_if_a_broker_has_delivered_the_record() -> None:
    """A client that sends a record again, with all its headers, writes the new time itself."""
    with pytest.raises(BadDueTime, match="look like seconds"):
        made(None, 1_700_003_600, None, ("tidemill-arrival", b"7"), config=TIMER)


def test_the_headers_of_another_topic_are_data() -> None:
    """Whatever their names and values."""
    assert [] == made(None, None, None, ("tidemill-delay", b"soon"), config=LOG)


def test_a_delay_that_the_topic_does_not_allow_is_refused() -> None:
    """The longest one that `tidemill.max.delay.ms` allows is accepted."""
    assert [("tidemill-delay", b"60s")] == made("60s", config=SHORT)
    with pytest.raises(BadDueTime, match=r"delay: .*later than tidemill\.max\.delay\.ms=60000 allows"):
        made("60001ms", config=SHORT)


def test_how_far_ahead_a_time_is_the_leader_decides() -> None:
    """The clock of the broker that the client has asked may be wrong."""
    assert [("tidemill-deliver-at", b"%d" % (NOW_MS + 60_001))] == made(None, NOW_MS + 60_001, config=SHORT)


def test_an_id_may_have_256_bytes() -> None:
    """Bytes count, not characters."""
    assert [("tidemill-timer-id", "ä".encode() * 128)] == made(None, None, "ä" * 128, config=TIMER)


CRON = {"timer_id": "a", "schedule": "cron 30 8 * * MON-FRI"}
IN_BERLIN = {**CRON, "timezone": "Europe/Berlin", "missed": "all"}


def test_a_schedule_becomes_headers() -> None:
    """It begins at the time that the record is due."""
    named, cron = ("tidemill-timer-id", b"a"), ("tidemill-schedule", b"cron 30 8 * * MON-FRI")
    where = [("tidemill-timezone", b"Europe/Berlin"), ("tidemill-missed", b"all")]

    assert [named, cron] == made_of(CRON, config=TIMER)
    assert [("tidemill-deliver-at", b"1801382400000"), named, cron, *where] == made_of(
        {**IN_BERLIN, "at": 1_801_382_400_000}, config=TIMER
    )


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"schedule": "every 15m"}, "schedule: tidemill-schedule needs the header tidemill-timer-id"),
        ({**CRON, "schedule": "hourly"}, "schedule: tidemill-schedule='hourly': write cron and five fields, or every"),
        ({**CRON, "timezone": "Berlin"}, "timezone: tidemill-timezone='Berlin': no such zone"),
        ({**IN_BERLIN, "missed": "two"}, "missed: tidemill-missed='two': write one, all or none"),
        (
            {"timer_id": "a", "timezone": "Europe/Berlin"},
            "timezone: tidemill-timezone='Europe/Berlin' without tidemill-schedule",
        ),
        ({"timer_id": "a", "missed": "all"}, "missed: tidemill-missed='all' without tidemill-schedule"),
        ({**CRON, "delay": "5m"}, "schedule: tidemill-schedule and tidemill-delay are both there"),
    ],
)
def test_a_bad_schedule_is_named_with_its_field(fields: Any, says: str) -> None:
    """And with what to write instead, before the leader is asked."""
    with pytest.raises(BadDueTime) as refused:
        made_of(fields, config=TIMER)

    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(
    ("fields", "headers", "says"),
    [
        (
            {**CRON, "missed": "one"},
            [("tidemill-missed", b"all")],
            "missed: the header tidemill-missed is there 2 times",
        ),
        (CRON, [("tidemill-missed", b"all")] * 2, "headers: the header tidemill-missed is there 2 times"),
        (CRON, [("tidemill-missed", b"two")], "headers: tidemill-missed='two': write one, all or none"),
        (CRON, [("tidemill-missed", None)], "headers: tidemill-missed=null: write one, all or none"),
        (CRON, [("tidemill-deliver-at", b"soon")], "headers: tidemill-deliver-at='soon'"),
        (
            {**CRON, "at": NOW_MS},
            [("tidemill-delay", b"1s")],
            "headers: the headers tidemill-delay and tidemill-deliver-at",
        ),
        ({"timer_id": "x", "missed": "one"}, [("tidemill-timezone", b"UTC")], "headers: tidemill-timezone='UTC' and"),
    ],
)
def test_a_problem_is_blamed_on_what_has_the_header(
    fields: dict[str, Any], headers: list[tuple[str, bytes | None]], says: str
) -> None:
    """A client may give some headers as fields, and others itself."""
    with pytest.raises(BadDueTime) as refused:
        made_of(fields, *headers, config=TIMER)

    assert str(refused.value).startswith(says)


def test_a_schedule_in_headers_is_checked_as_well() -> None:
    with pytest.raises(BadDueTime, match="headers: tidemill-schedule='hourly'"):
        made_of({"timer_id": "a"}, ("tidemill-schedule", b"hourly"), config=TIMER)
    with pytest.raises(BadDueTime, match="headers: tidemill-timezone='Berlin'"):
        made_of(CRON, ("tidemill-timezone", b"Berlin"), config=TIMER)


@pytest.mark.parametrize(
    ("fields", "shown"), [({"schedule": "every 1s"}, "schedule=every 1s"), ({"timezone": "UTC"}, "timezone=UTC")]
)
def test_only_timer_topics_have_schedules(fields: Any, shown: str) -> None:
    with pytest.raises(BadDueTime) as refused:
        made_of(fields, config=LOG)

    assert str(refused.value).startswith(f"{shown}: the topic is of kind log")
