"""Values as plain bytes: `/v1/topics/{topic}/records` with the body application/octet-stream, and `…/{offset}/value`.

A browser never renders a value: its type is always application/octet-stream, and it is an attachment.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Final
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tidemill.http.access import BYTES_TYPE
from tidemill.http.v1.budgets import taken_by
from tidemill.http.v1.calls import Call, Refused, Route, read_body
from tidemill.http.v1.due_fields import At, Delay, Missed, Schedule, TimerId, Timezone, timer_headers
from tidemill.http.v1.partition_offsets import OFFSET_MAX
from tidemill.http.v1.partition_reads import PartitionReader, partition_of
from tidemill.http.v1.records import TIMESTAMP_MAX, BadRecord, Content, NewRecord, Produced, record_of, write_records
from tidemill.http.v1.rights import READ_TOPIC, WRITE_TOPIC
from tidemill.http.v1.topics import topic_of
from tidemill.timer.due_time import BadDueTime

HEADER: Final = "tidemill-header"
_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_OFFSET_DIGITS_MAX: Final = len(str(OFFSET_MAX))


class ValueQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: Annotated[str, Meta(description="The key as text.")] | None = None
    key_base64: Annotated[str, Meta(description="The key as bytes.")] | None = None
    partition: Annotated[int, Meta(ge=0)] | None = None
    timestamp: (
        Annotated[int, Meta(ge=0, le=TIMESTAMP_MAX, description="In ms since the epoch; now, if absent.")] | None
    ) = None
    delay: Delay = None
    at: At = None
    timer_id: TimerId = None
    schedule: Schedule = None
    timezone: Timezone = None
    missed: Missed = None


async def produce_value(call: Call) -> Produced:
    topic, query = topic_of(call), call.query
    if query.key is not None and query.key_base64 is not None:
        raise Refused(400, "key and key_base64: give one of them")
    key = query.key if query.key_base64 is None else Content(base64=query.key_base64)
    given = NewRecord(key=key, partition=query.partition, timestamp=query.timestamp)
    now_ms, config = call.brokers.wall_ms, call.brokers.config_of(topic)
    try:
        key, _, _, timestamp = record_of(given, topic, config, now_ms)
        headers = [*_headers(call.request.headers.getlist(HEADER))]
        headers += timer_headers(query, headers=headers, config=config, now_ms=now_ms)
    except (BadRecord, BadDueTime) as problem:
        raise Refused(400, str(problem)) from problem
    value = await read_body(call.request)
    record = (query.partition, (key, value, headers, timestamp))
    return await write_records(call.brokers, topic, [record], taken_by(call.request))


def _headers(listed: list[str]) -> Iterator[tuple[str, bytes | None]]:
    """Yield the names and values in the request's headers `Tidemill-Header`.  Raise BadRecord."""
    for text in ",".join(listed).split(","):
        pair = text.strip()
        if not pair:
            continue
        if not pair.isascii() or _BAD_PERCENT.search(pair):
            raise BadRecord(
                f"Tidemill-Header: {pair[:200]}: encode other characters than ASCII, and %, as %25 and so on"
            )
        name, separator, value = pair.partition("=")
        try:
            yield unquote_to_bytes(name).decode(), unquote_to_bytes(value) if separator else None
        except UnicodeDecodeError as error:
            raise BadRecord(f"Tidemill-Header: {pair[:200]}: the name is not UTF-8") from error


async def read_value(call: Call) -> Response:
    topic = topic_of(call)
    partition = partition_of(call.names["partition"], topic)
    text = call.names["offset"]
    is_number = text.isascii() and text.isdigit() and len(text) <= _OFFSET_DIGITS_MAX and int(text) <= OFFSET_MAX
    reader, taken = PartitionReader(call.brokers, topic, partition), taken_by(call.request)
    record = await reader.record_at(int(text), taken) if is_number else None
    if record is None:
        raise Refused(404, f"partition {partition} of topic {topic.name} has no record at offset {text[:100]}")
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    if record.value is None:
        return Response(None, 204, headers)
    return Response(record.value, 200, headers | {"content-disposition": "attachment"}, BYTES_TYPE)


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/topics/{topic}/records",
        access=WRITE_TOPIC,
        handler=produce_value,
        body_type=BYTES_TYPE,
        query=ValueQuery,
        response=Produced,
        summary="Write one record: the body is its value, the query has its key.",
    ),
    Route(
        method="GET",
        path="/v1/topics/{topic}/partitions/{partition}/records/{offset}/value",
        access=READ_TOPIC,
        handler=read_value,
        response=None,
        media_types=(BYTES_TYPE,),
        empty_status=204,
        summary="Read the value of a record as bytes; 204 if it has none.",
    ),
)
