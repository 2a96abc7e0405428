"""`/v1/groups/{group}/offsets`: how far a group has read, and the resetting of that.

The offset of a consumer group is the committed one.  That of a share group is its start: all records before it are
finished.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from tidemill.http.v1.brokers import Brokers
from tidemill.http.v1.calls import Call, Refused, Route
from tidemill.http.v1.group_coordinators import KnownGroup, ask_coordinator, describe_group, has_members
from tidemill.http.v1.kafka_errors import check
from tidemill.http.v1.partition_offsets import LOG_END, LOG_START, OFFSET_MAX, offsets_at
from tidemill.http.v1.rights import CONSUME, DESCRIBE_OFFSETS
from tidemill.http.v1.topics import topic_named
from tidemill.metadata.image import Topic
from tidemill.model import errors
from tidemill.wire.messages import (
    alter_share_group_offsets,
    describe_share_group_offsets,
    offset_commit,
    offset_fetch,
)

PARTITIONS_MAX: Final = 10_000  # in one response
TOPICS_AT_ONCE: Final = 16  # each takes a connection to each leader
_PATH: Final = "/v1/groups/{group}/offsets"
_NO_GENERATION: Final = -1  # of a commit that does not come from a member


class OffsetsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: Annotated[str, Meta(description="All partitions of this topic, also those without an offset.")] | None = None


class GroupOffset(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: Annotated[int, Meta(description="Committed; of a share group, its start.")] | None
    end: int
    lag: int | None


class GroupOffsets(msgspec.Struct, frozen=True):
    group: str
    type: str
    offsets: list[GroupOffset]


class ResetBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly one of `to`, `time` and `offsets`."""

    topic: str
    partitions: Annotated[list[int], Meta(min_length=1, description="All, if absent.")] | None = None
    to: Literal["earliest", "latest"] | None = None
    time: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="The first record at or after it, in ms.")] | None = None
    offsets: Annotated[dict[int, int], Meta(min_length=1, description="An offset for each partition.")] | None = None


class NewOffset(msgspec.Struct, frozen=True):
    partition: int
    offset: int


class Reset(msgspec.Struct, frozen=True):
    group: str
    topic: str
    offsets: list[NewOffset]


class Position(NamedTuple):
    offset: int
    lag: int | None  # as a share group counts it: without the finished records behind its start


async def show(call: Call) -> GroupOffsets:
    brokers, query = call.brokers, call.query
    group = await describe_group(brokers, call.names["group"])
    only = None if query.topic is None else topic_named(brokers, query.topic)
    positions = await positions_of(brokers, group, only)
    wanted: list[tuple[Topic, Sequence[int]]] = []
    if only is not None:
        wanted.append((only, range(only.partition_count)))
    else:
        for name in sorted(positions):
            if (topic := brokers.image.topic(name)) is not None:
                wanted.append((topic, [it for it in sorted(positions[name]) if it < topic.partition_count]))
    if sum(len(numbers) for _, numbers in wanted) > PARTITIONS_MAX:
        raise Refused(
            400, f"group {group.name} reads more than {PARTITIONS_MAX} partitions: choose some with topic=NAME"
        )
    ends: list[dict[int, int]] = []
    for first in range(0, len(wanted), TOPICS_AT_ONCE):
        part = wanted[first : first + TOPICS_AT_ONCE]
        ends += await asyncio.gather(*(offsets_at(brokers, topic, numbers, LOG_END) for topic, numbers in part))
    rows = [
        _row(topic, number, positions.get(topic.name, {}).get(number), end[number])
        for (topic, numbers), end in zip(wanted, ends, strict=True)
        for number in numbers
    ]
    return GroupOffsets(group.name, group.type, rows)


def _row(topic: Topic, number: int, position: Position | None, end: int) -> GroupOffset:
    if position is None:
        return GroupOffset(topic.name, number, None, end, None)
    lag = max(end - position.offset, 0) if position.lag is None else position.lag
    return GroupOffset(topic.name, number, position.offset, end, lag)


async def positions_of(
    brokers: Brokers, group: KnownGroup, topic: Topic | None = None
) -> Mapping[str, Mapping[int, Position]]:
    """
    Return where the group continues, by topic and partition; partitions without an offset are left out.  `topic`
    chooses one.
    """
    return await (_starts if group.is_share else _committed)(brokers, group.name, topic)


async def _committed(brokers: Brokers, group: str, only: Topic | None) -> dict[str, dict[int, Position]]:
    request = offset_fetch.Request(groups=[offset_fetch.Request.Group(group_id=group, topics=None)])
    response = await ask_coordinator(
        brokers, group, offset_fetch.API, request, lambda response: [it.error_code for it in response.groups]
    )
    (answer,) = response.groups
    check(answer.error_code, None, f"group {group}")
    found: dict[str, dict[int, Position]] = {}
    for listed in answer.topics:  # by id
        topic = brokers.image.topic_by_id(listed.topic_id)
        if topic is not None and (only is None or only.topic_id == topic.topic_id):
            found[topic.name] = {it.partition_index: Position(it.committed_offset, None) for it in listed.partitions}
    return found


async def _starts(brokers: Brokers, group: str, only: Topic | None) -> dict[str, dict[int, Position]]:
    asked = describe_share_group_offsets.Request.Group
    topics = None if only is None else [asked.Topic(topic_name=only.name, partitions=range(only.partition_count))]
    response = await ask_coordinator(
        brokers,
        group,
        describe_share_group_offsets.API,
        describe_share_group_offsets.Request(groups=[asked(group_id=group, topics=topics)]),
        lambda response: [it.error_code for it in response.groups],
    )
    (answer,) = response.groups
    check(answer.error_code, answer.error_message, f"group {group}")
    found: dict[str, dict[int, Position]] = {}
    for topic in answer.topics:
        for it in topic.partitions:
            check(it.error_code, it.error_message, f"partition {it.partition_index} of topic {topic.topic_name}")
            if it.start_offset >= 0:
                position = Position(it.start_offset, None if it.lag < 0 else it.lag)
                found.setdefault(topic.topic_name, {})[it.partition_index] = position
    return found


async def reset(call: Call) -> Reset:
    brokers, body = call.brokers, call.body
    topic = topic_named(brokers, body.topic)
    group = await describe_group(brokers, call.names["group"])
    offsets = await _new_offsets(brokers, topic, body)
    await (_alter if group.is_share else _commit)(brokers, group.name, topic, offsets)
    return Reset(group.name, topic.name, [NewOffset(*one) for one in sorted(offsets.items())])


async def _new_offsets(brokers: Brokers, topic: Topic, body: ResetBody) -> dict[int, int]:
    if sum(it is not None for it in (body.to, body.time, body.offsets)) != 1:
        raise Refused(400, "the body needs exactly one of to, time and offsets")
    if body.offsets is not None and body.partitions is not None:
        raise Refused(
            400, "the body has partitions and offsets: the offsets name their partitions, leave partitions out"
        )
    numbers = sorted(set(body.offsets or body.partitions or range(topic.partition_count)))
    if not 0 <= numbers[0] <= numbers[-1] < topic.partition_count:
        raise Refused(404, f"topic {topic.name} has the partitions 0 to {topic.partition_count - 1} only")
    if body.offsets is None:
        timestamp = body.time
        if timestamp is None:
            timestamp = LOG_START if body.to == "earliest" else LOG_END
        return await offsets_at(brokers, topic, numbers, timestamp)
    starts, ends_of_logs = await asyncio.gather(
        offsets_at(brokers, topic, numbers, LOG_START), offsets_at(brokers, topic, numbers, LOG_END)
    )
    for number, offset in body.offsets.items():
        start, end = starts[number], ends_of_logs[number]
        if not start <= offset <= end:
            raise Refused(
                400, f"offset {offset} of partition {number}: choose one from {start}, the log start, to {end}, its end"
            )
    return body.offsets


async def _commit(brokers: Brokers, group: str, topic: Topic, offsets: Mapping[int, int]) -> None:
    asked = offset_commit.Request.Topic
    partitions = [
        asked.Partition(partition_index=number, committed_offset=offset, committed_metadata="")
        for number, offset in offsets.items()
    ]
    request = offset_commit.Request(
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        topics=[asked(name=topic.name, topic_id=topic.topic_id, partitions=partitions)],
    )
    response = await ask_coordinator(
        brokers,
        group,
        offset_commit.API,
        request,
        lambda response: [it.error_code for it in _partitions(response.topics)],
    )
    for answer in _partitions(response.topics):
        if answer.error_code == errors.UNKNOWN_MEMBER_ID:  # only a member may commit
            raise has_members(group, "its offsets are reset")
        check(answer.error_code, None, f"group {group}")


async def _alter(brokers: Brokers, group: str, topic: Topic, offsets: Mapping[int, int]) -> None:
    asked = alter_share_group_offsets.Request.Topic
    partitions = [asked.Partition(partition_index=number, start_offset=offset) for number, offset in offsets.items()]
    request = alter_share_group_offsets.Request(
        group_id=group, topics=[asked(topic_name=topic.name, partitions=partitions)]
    )
    response = await ask_coordinator(
        brokers, group, alter_share_group_offsets.API, request, lambda response: [response.error_code]
    )
    if response.error_code == errors.NON_EMPTY_GROUP:
        raise has_members(group, "its offsets are reset")
    for answer in (response, *_partitions(response.responses)):
        check(answer.error_code, answer.error_message, f"group {group}")


def _partitions(topics: Iterable[Any]) -> list[Any]:
    return [partition for topic in topics for partition in topic.partitions]


ROUTES: Final = (
    Route(
        method="GET",
        path=_PATH,
        access=DESCRIBE_OFFSETS,
        handler=show,
        query=OffsetsQuery,
        response=GroupOffsets,
        summary="Show how far a group has read each partition.",
    ),
    Route(
        method="PATCH",
        path=_PATH,
        access=CONSUME,
        handler=reset,
        body=ResetBody,
        example={"topic": "mails", "to": "earliest"},
        response=Reset,
        summary="Set offsets of a group without members; those of other partitions remain.",
    ),
)
