"""The messages of Sandglass's HTTP gateway: JSON with names in camelCase, and bytes in base64.

A message's offset has 14 bytes: its timestamp in ms, 6, and its offset in the partition, 8.  A message that waits in a
timer topic has no offset yet: instead of one, producers get its arrival number, with all bits of the 8 bytes inverted,
so that it is not taken for the offset of another message.
"""

import binascii
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from struct import Struct
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tidemill.http.answer import JSON_TYPE, Answer
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.partition_reads import ReadRecord
from tidemill.http.v1.queues import Message
from tidemill.http.v1.record_schema import Base64, Text
from tidemill.http.v1.records import RECORDS_MAX

TIME_MAX: Final = 253_402_300_799_999  # in ms, the end of the year 9999, which RFC 3339 can express
_OFFSET: Final = Struct(">q")
_TIME_BYTES: Final = 6
_OFFSET_BYTES: Final = _TIME_BYTES + _OFFSET.size
_DURATION: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?s", re.ASCII)  # protobuf's, without a sign
_UNKNOWN: Final = 2  # codes of gRPC
_ALREADY_EXISTS: Final = 6
_CODES: Final = {
    400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 409: 10, 410: 11, 412: 9, 413: 8, 415: 3, 422: 15, 503: 14,
}  # fmt: skip


class NewTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: str
    kind: int | str | None = None
    replication_factor: Annotated[int, Meta(ge=0, le=(1 << 15) - 1)] = 0  # 0: as the cluster's configuration says
    num_partitions: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)] = 0
    storage_driver: int | str | None = None  # has no meaning here


class NewMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    key: str = ""
    value: str = ""
    clustering_key: str = ""
    channel: str = ""
    consume_in: int | float | str | None = None  # a duration, such as 1.5s


class ProduceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=RECORDS_MAX)]
    topic: str = ""  # is in the path
    partition: str = ""  # used if the path has none


class OffsetsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What a consumer has finished.  The other fields are in the path."""

    offset: str = ""
    offsets: list[str] = []
    topic: str = ""
    partition: str = ""
    consumer_group: str = ""
    consumer_name: str = ""


class TopicReply(msgspec.Struct, frozen=True):
    name: str
    partitions: list[str]


class ProduceReply(msgspec.Struct, frozen=True):
    offsets: list[str]


class Success(msgspec.Struct, frozen=True):
    success: bool


class StoredMessage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    index: str  # the offset in the partition; 64-bit numbers are strings
    offset: str
    produced_at: str | None = None
    key: bytes = b""  # base64 in JSON
    value: bytes = b""


class Line(msgspec.Struct, frozen=True):
    result: StoredMessage


def stored(record: ReadRecord | Message) -> StoredMessage:
    timestamp = min(record.timestamp or 0, TIME_MAX)
    return StoredMessage(
        index=str(record.offset),
        offset=encode_offset(timestamp, record.offset),
        produced_at=datetime.fromtimestamp(timestamp / 1_000, UTC).isoformat().replace("+00:00", "Z"),
        key=_bytes(record.key),
        value=_bytes(record.value),
    )


def _bytes(text: Text) -> bytes:
    return text.base64 if isinstance(text, Base64) else (text or "").encode()


def delay_ms_of(duration: float | str | None) -> int | None:
    """
    Return a duration of protobuf's JSON, such as `1.5s`, in milliseconds, rounded up; None if it is not one.

    Zero may also be a number, empty or absent; other numbers have no unit.
    """
    if not duration:
        return 0
    found = _DURATION.fullmatch(duration) if isinstance(duration, str) else None
    if found is None:
        return None
    seconds, fraction = found.groups()
    return int(seconds) * 1_000 - int((fraction or "").ljust(9, "0")) // -1_000_000


def encode_offset(timestamp: int, offset: int) -> str:
    return b64encode(timestamp.to_bytes(_TIME_BYTES) + _OFFSET.pack(offset)).decode()


def encode_arrival(timestamp: int, arrival: int) -> str:
    return encode_offset(timestamp, ~arrival)


def offsets_of(body: OffsetsBody) -> Sequence[int]:
    """Return the offsets in ascending order.  Raise Refused."""
    texts = [*body.offsets, *([body.offset] if body.offset else [])]
    if not texts:
        raise Refused(400, "the body needs offset or offsets: those of the messages that are finished")
    return sorted({_decoded(text) for text in texts})


def _decoded(text: str) -> int:
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if len(data) != _OFFSET_BYTES or data[_TIME_BYTES] > 0x7F:
        raise Refused(
            400, f"{text[:100]} is not the offset of a message: send it as it was received, not as it was produced"
        )
    return int(_OFFSET.unpack(data[_TIME_BYTES:])[0])


def refusal(answer: Answer) -> Answer:
    """Return a problem with the fields of the gateway's errors: error, message and code."""
    given = json.loads(answer.text)
    is_known = given.get("error") == "TOPIC_ALREADY_EXISTS"
    code = _ALREADY_EXISTS if is_known else _CODES.get(answer.status, _UNKNOWN)
    fields = {"error": given["detail"], "message": given["detail"], "code": code}
    return answer._replace(content_type=JSON_TYPE, text=json.dumps(fields) + "\n")


def last_line(refused: Refused) -> bytes:
    """Return the line that ends a stream with an error."""
    status, _, text, _ = refused.answer
    given = json.loads(text)
    fields = {
        "grpc_code": _CODES.get(status, _UNKNOWN),
        "http_code": status,
        "message": given["detail"],
        "http_status": given["title"],
    }
    return json.dumps({"error": fields}).encode() + b"\n"
