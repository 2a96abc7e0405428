"""The records that the client sends."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tidemill.sdk.delays import Due
from tidemill.sdk.record import encoded_value, new_record


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (b"\xff", b"\xff"),
        (bytearray(b"a"), b"a"),
        ("ä", "ä".encode()),
        ({"n": [1, 2.5, None]}, b'{"n":[1,2.5,null]}'),
        (0, b"0"),
        (datetime(2026, 1, 2, tzinfo=UTC), b'"2026-01-02T00:00:00Z"'),
    ],
)
def test_bytes_and_text_stay_as_they_are_and_the_rest_is_json(value: object, expected: bytes | None) -> None:
    assert expected == encoded_value(value)


def test_a_value_that_json_cannot_represent_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        encoded_value(object())


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        ({"key": 5}, "key=5"),
        ({"headers": {"a": 1}}, "headers: a=1"),
        ({"headers": [(b"mine", b"x")]}, "headers: the name b'mine': use text"),
        ({"headers": {5: b"x"}}, "headers: the name 5: use text"),
        ({"value": {1, object}}, "for topic mails"),
    ],
)
def test_a_value_of_another_type_is_named(more: dict[str, Any], shown: str) -> None:
    given: dict[str, Any] = {"value": "v", "key": None, "headers": (), "partition": None, "timestamp": None} | more

    with pytest.raises(TypeError, match=shown):
        new_record("mails", **given)


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        ({"key": "\ud800"}, r"key='\ud800'"),
        ({"value": "\ud800"}, r"value='\ud800' for topic mails"),
        ({"value": {"a": "\ud800"}}, r"value={'a': '\ud800'} for topic mails"),
        ({"headers": {"\ud800": b"x"}}, r"headers: the name '\ud800'"),
        ({"headers": {"a": "\ud800"}}, r"headers: a='\ud800'"),
        ({"due": Due(timer_id="\ud800")}, r"timer_id='\ud800'"),
        ({"due": Due(timer_id="a", schedule="\ud800")}, r"schedule='\ud800'"),
        ({"due": Due(timer_id="a", schedule="every 1h", timezone="\ud800")}, r"timezone='\ud800'"),
    ],
)
def test_text_that_utf_8_cannot_represent_is_named(more: dict[str, Any], shown: str) -> None:
    """librdkafka ends the process by a segmentation fault for such a name of a header."""
    given: dict[str, Any] = {"value": "v", "key": "k", "headers": (), "partition": None, "timestamp": None} | more

    with pytest.raises(ValueError, match=f"{re.escape(shown)}: use text that UTF-8 can represent") as problem:
        new_record("mails", **given)
    assert str(problem.value).isprintable()


def test_the_name_of_a_header_is_not_cut_off() -> None:
    """Kafka's protocol has a length for it, but librdkafka takes what is before the first NUL."""
    with pytest.raises(ValueError, match=re.escape(r"headers: the name 'a\x00b': leave out the NUL")):
        new_record("t", b"", key=None, headers={"a\0b": b"x"}, partition=None, timestamp=None)


def test_a_record_has_bytes_and_milliseconds() -> None:
    record = new_record(
        "t",
        "v",
        key="k",
        headers={"a": "1", "b": None},
        partition=3,
        timestamp=datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
    )

    assert ("t", b"k", b"v", [("a", b"1"), ("b", None)], 3, 1_500, False) == record


def test_headers_may_repeat_a_name() -> None:
    record = new_record("t", b"", key=None, headers=[("a", b"1"), ("a", "2")], partition=None, timestamp=None)

    assert [("a", b"1"), ("a", b"2")] == record.headers


def test_a_timestamp_needs_a_time_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        new_record("t", b"", key=None, headers=(), partition=None, timestamp=datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("due", "header"),
    [
        (Due(delay="5m"), ("tidemill-delay", b"300000")),
        (Due(at=datetime(2027, 1, 31, 8, tzinfo=UTC)), ("tidemill-deliver-at", b"1801382400000")),
        (Due(timer_id="invoice 7"), ("tidemill-timer-id", b"invoice 7")),
    ],
)
def test_a_record_that_waits_has_a_header_behind_its_own(due: Due, header: tuple[str, bytes]) -> None:
    """Such a record needs a timer topic, because others would deliver it at once."""
    record = new_record("t", b"", key="k", headers={"a": "1"}, partition=None, timestamp=None, due=due)

    assert [("a", b"1"), header] == record.headers
    assert record.needs_timer_topic


@pytest.mark.parametrize(("key", "partition"), [("k", None), (b"", None), (None, 0)])
def test_an_id_needs_a_partition_of_its_own(key: str | bytes | None, partition: int | None) -> None:
    """It names a timer of one partition: without a key, a later record may not find the one that it replaces."""
    due = Due(timer_id="invoice 7")

    with pytest.raises(ValueError, match=r"timer_id='invoice 7' without key: .* the same key each time"):
        new_record("t", b"", key=None, headers=(), partition=None, timestamp=None, due=due)
    assert new_record("t", b"", key=key, headers=(), partition=partition, timestamp=None, due=due).headers
