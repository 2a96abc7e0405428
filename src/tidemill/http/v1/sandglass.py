"""`/sandglass/topics`: the paths of Sandglass's HTTP gateway, over the same topics and queues as `/v1`.

The console has `/topics`, so these paths have a folder of their own; a client of Sandglass takes a base address.  Its
topics are timer topics.  Keyed topics and channels do not exist: a request that needs one is refused.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from tidemill.http.answer import JSON_TYPE
from tidemill.http.v1.brokers import Brokers
from tidemill.http.v1.budgets import Exhausted, taken_by
from tidemill.http.v1.calls import Call, Refused, Route, busy
from tidemill.http.v1.configs import alter_configs
from tidemill.http.v1.group_coordinators import describe_group
from tidemill.http.v1.leader_requests import ask_leader
from tidemill.http.v1.partition_offsets import LOG_END, LOG_START
from tidemill.http.v1.partition_reads import PartitionReader, ReadRecord, partition_of, size_of
from tidemill.http.v1.queues import Message, ReceiveBody, receive_messages, size_of_messages
from tidemill.http.v1.records import Content, NewRecord, produce_all
from tidemill.http.v1.rights import CONSUME, CREATE_TOPIC, DESCRIBE_TOPIC, READ_TOPIC, WRITE_TOPIC, Right
from tidemill.http.v1.sandglass_schema import (
    Line,
    NewMessage,
    NewTopic,
    OffsetsBody,
    ProduceBody,
    ProduceReply,
    Success,
    TopicReply,
    delay_ms_of,
    encode_arrival,
    encode_offset,
    last_line,
    offsets_of,
    refusal,
    stored,
)
from tidemill.http.v1.stream_response import StreamResponse
from tidemill.http.v1.topics import CreateBody, create_topic, topic_of
from tidemill.metadata.image import Topic
from tidemill.metadata.metadata_records import GROUP_RESOURCE, ConfigResource
from tidemill.model.topic_config import TopicConfig
from tidemill.model.topic_kind import TopicKind
from tidemill.peer import share_resolve
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.timer.due_time import DUE_MS_MAX, UNLIMITED

LEASE_MS: Final = 10_000  # this, the back-off and the limit are Sandglass's
PAGE: Final = 100
GROUP_CONFIGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "5",
    "tidemill.share.backoff": json.dumps({"kind": "linear", "first": "10s", "step": "10s"}),
}
TIMER_KINDS: Final = (None, 0, "0", "TimerKind")  # 0 is the default, which JSON of gRPC may leave out
UNHELD: Final = ""  # instead of a consumer's name: records that no consumer holds
FOLDER: Final = "/sandglass/"
_TOPICS: Final = f"{FOLDER}topics"
_OF_CONSUMER: Final = "{topic}/{partition}/{group}/{consumer}"
_encode_into = msgspec.json.Encoder().encode_into
RecordT = TypeVar("RecordT", ReadRecord, Message)


async def create(call: Call) -> Success:
    body: NewTopic = call.body
    if body.kind not in TIMER_KINDS:
        raise Refused(
            400,
            f"kind={str(body.kind)[:100]}: keyed topics are not available; leave it out, or use 0, to create a timer "
            "topic",
        )
    wanted = CreateBody(body.name, body.num_partitions or None, body.replication_factor or None, kind=TopicKind.TIMER)
    await create_topic(call.brokers, wanted)
    return Success(True)


async def describe(call: Call) -> TopicReply:
    topic = topic_of(call)
    return TopicReply(topic.name, [str(number) for number in range(topic.partition_count)])


async def produce(call: Call) -> ProduceReply:
    topic, body = topic_of(call), call.body
    partition = call.names.get("partition", body.partition)
    number = partition_of(partition, topic) if partition else None
    now_ms, config = call.brokers.wall_ms, call.brokers.config_of(topic)
    records = [_record(at, it, number, now_ms, config) for at, it in enumerate(body.messages)]
    produced = await produce_all(call.brokers, topic, records, taken_by(call.request), name="messages")
    encode = encode_arrival if config.is_timer else encode_offset
    return ProduceReply([encode(now_ms, it.offset) for it in produced.records])


def _record(at: int, message: NewMessage, partition: int | None, now_ms: int, config: TopicConfig) -> NewRecord:
    where = f"messages[{at}]"
    delay_ms, shown = delay_ms_of(message.consume_in), f"{where}.consumeIn={str(message.consume_in)[:100]}"
    if delay_ms is None:
        raise Refused(400, f'{shown}: it is no duration; write for example "90s" or "0.5s"')
    if delay_ms and not config.is_timer:
        raise Refused(
            400,
            f"{shown}: only timer topics delay messages, and this topic is not one; leave it out, or create a topic "
            "with kind=0",
        )
    longest_ms = DUE_MS_MAX - now_ms if config.max_delay_ms == UNLIMITED else config.max_delay_ms
    if delay_ms > longest_ms:
        is_unlimited = config.max_delay_ms == UNLIMITED
        allowed = "only until the year 9999" if is_unlimited else f"by no more than tidemill.max.delay.ms={longest_ms}"
        raise Refused(400, f"{shown}: the topic delays messages {allowed}; write a shorter duration")
    for name, value in (("clusteringKey", message.clustering_key), ("channel", message.channel)):
        if value:
            raise Refused(
                400, f"{where}.{name}={value[:100]}: keyed topics and channels are not available; leave it out"
            )
    key = Content(base64=message.key) if message.key else None
    return NewRecord(
        value=Content(base64=message.value),
        key=key,
        partition=partition,
        timestamp=now_ms,
        delay=delay_ms or None,
    )


async def read(call: Call) -> StreamResponse:
    """Stream the records of a partition from the log start to the end that it has now."""
    topic, taken = topic_of(call), taken_by(call.request)
    reader = PartitionReader(call.brokers, topic, partition_of(call.names["partition"], topic))
    offset, end = await reader.offset_at(LOG_START), await reader.offset_at(LOG_END)

    async def pages(offset: int) -> AsyncIterator[Sequence[ReadRecord]]:
        while offset < end:
            page = await reader.read(offset, PAGE, 0, taken)
            size = size_of(page)
            taken.response(size)
            yield [it for it in page.records if it.offset < end]
            taken.give_back(size)
            if page.next_offset == offset:
                return  # the other records of this leader are not readable yet
            offset = page.next_offset

    return StreamResponse(_lines(pages(offset)), JSON_TYPE)


async def receive(call: Call) -> StreamResponse:
    """Stream messages of a share group until none is available; each is locked for the consumer."""
    topic, group, taken = topic_of(call), call.names["group"], taken_by(call.request)
    number = partition_of(call.names["partition"], topic)
    asked = ReceiveBody(call.names["consumer"][:200], max=PAGE, lease_ms=LEASE_MS, partition=number)
    await _prepare(call.brokers, group)
    first = await receive_messages(call.brokers, topic, group, asked, taken)

    async def pages() -> AsyncIterator[Sequence[Message]]:
        page = first
        while page:
            yield page
            taken.give_back(size_of_messages(page))
            page = await receive_messages(call.brokers, topic, group, asked, taken)

    return StreamResponse(_lines(pages()), JSON_TYPE)


async def _prepare(brokers: Brokers, group: str) -> None:
    """Give a group that does not exist yet Sandglass's settings, except for those that it has already."""
    resource = ConfigResource(GROUP_RESOURCE, group)
    given = brokers.image.configs.get(resource, {})
    absent = {name: value for name, value in GROUP_CONFIGS.items() if name not in given}
    if absent and not await _exists(brokers, group):
        await alter_configs(brokers, resource, absent, f"group {group[:300]}")


async def _exists(brokers: Brokers, group: str) -> bool:
    try:
        await describe_group(brokers, group)
    except Refused as refused:
        if refused.answer.status == 404:
            return False
        raise
    return True


async def _lines(pages: AsyncIterator[Sequence[RecordT]]) -> AsyncGenerator[bytes | bytearray, None]:
    try:
        async for page in pages:
            for record in page:
                line = bytearray()
                _encode_into(Line(stored(record)), line)
                line += b"\n"  # a record can be large, and must not be copied
                yield line
    except (Refused, Exhausted) as problem:
        yield last_line(busy(problem) if isinstance(problem, Exhausted) else problem)


async def acknowledge(call: Call) -> Success:
    """Finish messages that the consumer holds."""
    topic, consumer = topic_of(call), call.names["consumer"]
    number = partition_of(call.names["partition"], topic)
    offsets = offsets_of(call.body)
    resolved = await _accept(call, topic, number, consumer, [(it, it) for it in offsets])
    if resolved.resolved + resolved.finished < len(offsets):
        raise Refused(412, f"{consumer[:200]} does not hold all {len(offsets)} messages any more: receive them again")
    return Success(True)


async def commit(call: Call) -> Success:
    """Finish all messages up to an offset, except for those that other consumers hold."""
    topic = topic_of(call)
    number = partition_of(call.names["partition"], topic)
    up_to = [(0, offsets_of(call.body)[-1])]
    await _accept(call, topic, number, call.names["consumer"], up_to)
    rest = await _accept(call, topic, number, UNHELD, up_to)
    if rest.held:
        raise Refused(412, f"other consumers hold {rest.held} of the messages: they are not finished")
    return Success(True)


async def _accept(
    call: Call, topic: Topic, number: int, consumer: str, ranges: Sequence[tuple[int, int]]
) -> share_resolve.Response:
    """Accept records that a consumer holds, and return what has become of how many."""
    brokers, group = call.brokers, call.names["group"]
    batch = share_resolve.Request.Batch
    request = share_resolve.Request(
        group_id=group,
        topic_id=topic.topic_id,
        partition=number,
        member_id=consumer,
        batches=[
            batch(first_offset=first, last_offset=last, acknowledge_types=[Acknowledgement.ACCEPT])
            for first, last in ranges
        ],
    )

    response: share_resolve.Response = await ask_leader(
        brokers, topic, number, share_resolve.API, request, f"group {group[:300]}"
    )
    return response


def _route(method: str, path: str, access: tuple[Right, ...], handler: Any, **more: Any) -> Route:
    return Route(
        method=method, path=_TOPICS + path, access=access, handler=handler, refusal=refusal, summary="", **more
    )


_STREAM: Final[dict[str, Any]] = {"response": Line, "media_types": (JSON_TYPE,)}
ROUTES: Final = (
    _route("POST", "", CREATE_TOPIC, create, body=NewTopic, response=Success),
    _route("GET", "/{topic}", DESCRIBE_TOPIC, describe, response=TopicReply),
    _route("POST", "/{topic}", WRITE_TOPIC, produce, body=ProduceBody, response=ProduceReply),
    _route("POST", "/{topic}/{partition}", WRITE_TOPIC, produce, body=ProduceBody, response=ProduceReply),
    _route("GET", "/{topic}/{partition}", READ_TOPIC, read, **_STREAM),
    _route("GET", f"/{_OF_CONSUMER}", CONSUME, receive, **_STREAM),
    _route("POST", f"/ack/{_OF_CONSUMER}", CONSUME, acknowledge, body=OffsetsBody, response=Success),
    _route("POST", f"/commit/{_OF_CONSUMER}", CONSUME, commit, body=OffsetsBody, response=Success),
)
