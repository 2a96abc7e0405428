"""The JSON of Sandglass's HTTP gateway."""

import json
from base64 import b64encode

import msgspec
import pytest

from tidemill.http.answer import problem
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.partition_reads import ReadRecord
from tidemill.http.v1.record_schema import Base64
from tidemill.http.v1.sandglass_schema import (
    OffsetsBody,
    delay_ms_of,
    encode_arrival,
    encode_offset,
    last_line,
    offsets_of,
    refusal,
    stored,
)


def test_a_message_has_its_bytes_in_base64() -> None:
    """
    64-bit numbers are texts, and what is empty is left out.
    """
    record = ReadRecord(7, 1_700_000_000_123, "k", Base64(b"\xff"), [])
    offset = b64encode((1_700_000_000_123).to_bytes(6) + (7).to_bytes(8)).decode()
    expected = {
        "index": "7",
        "offset": offset,
        "producedAt": "2023-11-14T22:13:20.123000Z",
        "key": "aw==",
        "value": "/w==",
    }

    assert expected == msgspec.to_builtins(stored(record))
    assert {"index", "offset", "producedAt"} == {*msgspec.to_builtins(stored(ReadRecord(7, None, None, None, [])))}


@pytest.mark.parametrize("timestamp", [0, 1 << 48, (1 << 63) - 1])
def test_any_timestamp_can_be_shown(timestamp: int) -> None:
    message = stored(ReadRecord(3, timestamp, None, None, []))

    assert [3] == list(offsets_of(OffsetsBody(offset=message.offset)))
    assert message.produced_at is not None and message.produced_at.endswith("Z")


@pytest.mark.parametrize(
    ("duration", "delay_ms"),
    [
        (None, 0),
        ("", 0),
        (0, 0),
        ("0s", 0),
        ("90s", 90_000),
        ("1.5s", 1_500),
        ("0.000000001s", 1),
        ("2.001000001s", 2_002),
        ("315576000000s", 315_576_000_000_000),
    ],
)
def test_a_duration_is_seconds_in_protobufs_json(duration: str | float | None, delay_ms: int) -> None:
    """It is rounded up to milliseconds, so that nothing is early."""
    assert delay_ms == delay_ms_of(duration)


@pytest.mark.parametrize(
    "duration", ["soon", "5", "5m", "-5s", "1.s", ".5s", "1.0000000001s", "\u0663s", 5, -1, 0.5, float("nan")]
)
def test_what_is_not_a_duration_has_no_delay(duration: str | float) -> None:
    """A number has no unit: it could be seconds or nanoseconds."""
    assert delay_ms_of(duration) is None


def test_offsets_are_sorted() -> None:
    texts = [encode_offset(timestamp, offset) for timestamp, offset in ((1, 9), (2, 4), (3, 9))]

    assert [4, 6, 9] == list(offsets_of(OffsetsBody(offset=encode_offset(0, 6), offsets=texts)))


@pytest.mark.parametrize(
    "text",
    ["x", "AAAA", encode_offset(0, 5)[:-4], encode_offset(0, -1), encode_arrival(9, 0), encode_arrival(9, 1 << 62)],
)
def test_what_is_not_an_offset_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        offsets_of(OffsetsBody(offset=text))


@pytest.mark.parametrize(
    ("status", "name", "code"),
    [
        (400, None, 3),
        (404, None, 5),
        (409, None, 10),
        (409, "TOPIC_ALREADY_EXISTS", 6),
        (503, None, 14),
        (418, None, 2),
    ],
)
def test_errors_have_the_codes_of_grpc(status: int, name: str | None, code: int) -> None:
    """
    In a stream that has begun, too.
    """
    more = {} if name is None else {"error": name}

    answer = refusal(problem(status, "no", **more))

    assert (status, "application/json") == (answer.status, answer.content_type)
    assert {"error": "no", "message": "no", "code": code} == json.loads(answer.text)
    if name is None:
        error = json.loads(last_line(Refused(status, "no")))["error"]
        assert (code, status, "no") == (error["grpc_code"], error["http_code"], error["message"])
