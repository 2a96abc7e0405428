"""The headers of dead letters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.model.letter_origin import MESSAGES, Cause, Origin, origin_of

COMPLETE = [
    ("__dlq.errors.topic", b"orders"),
    ("__dlq.errors.partition", b"3"),
    ("__dlq.errors.offset", b"9007199254740993"),
    ("__dlq.errors.group", b"billing"),
    ("__dlq.errors.delivery.count", b"5"),
    ("__dlq.errors.message", b"Offset delivery count exceeded the threshold."),
]


def test_headers_name_the_origin_and_the_cause() -> None:
    """
    A letter says which record of which topic is dead, for which group, after how many deliveries, and why.
    """
    origin = origin_of([("trace", b"x"), *COMPLETE])

    assert origin == Origin(
        topic="orders",
        partition=3,
        offset=9007199254740993,
        group="billing",
        attempts=5,
        message="Offset delivery count exceeded the threshold.",
        cause=Cause.LIMIT,
    )


def test_every_cause_has_one_message() -> None:
    """
    The messages are those of KIP-1191, plus one for records whose time to live passed.
    """
    causes = {cause: origin_of([("__dlq.errors.message", text.encode())]).cause for cause, text in MESSAGES.items()}

    assert {cause: cause for cause in Cause} == causes


def test_the_first_of_repeated_headers_counts() -> None:
    """
    The headers of a letter precede those of the dead record.  If that was a letter itself, its headers do not count.
    """
    origin = origin_of([*COMPLETE, ("__dlq.errors.topic", b"dlq.orders"), ("__dlq.errors.offset", b"1")])

    assert ("orders", 9007199254740993) == (origin.topic, origin.offset)


@pytest.mark.parametrize("value", [b"", b"-1", b"1.5", b"x", "٣".encode(), b"9" * 30, b"9223372036854775808", None])
def test_an_offset_that_is_no_offset_is_unknown(value: bytes | None) -> None:
    """
    A header that is not a valid number counts as missing: a producer may write any header.
    """
    assert origin_of([("__dlq.errors.offset", value)]).offset is None


def test_another_message_has_no_cause() -> None:
    """
    Letters of other systems may have other messages.  The message is kept, and the cause is unknown.
    """
    assert Origin(message="timeout") == origin_of([("__dlq.errors.message", b"timeout")])


@given(st.lists(st.tuples(st.sampled_from([name for name, _ in COMPLETE]), st.none() | st.binary(max_size=20))))
def test_any_headers_can_be_read(headers: list[tuple[str, bytes | None]]) -> None:
    """
    No header makes reading fail.
    """
    origin = origin_of(headers)

    assert origin.offset is None or 0 <= origin.offset < 1 << 63
