"""Asks the leaders of a topic's partitions for offsets, by time or at an end of the log."""

import asyncio
from collections.abc import Collection
from typing import Final

from tidemill.http.v1.brokers import REPEATABLE_S_MAX, Brokers, Unreachable
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.kafka_errors import check, without_leader
from tidemill.http.v1.retries import retried
from tidemill.metadata.image import Topic
from tidemill.model import errors
from tidemill.model.broker_id import CONSUMER_REPLICA_ID, BrokerId
from tidemill.wire.messages import list_offsets

LOG_START: Final = -2  # instead of a timestamp
LOG_END: Final = -1
OFFSET_MAX: Final = (1 << 63) - 1
MOVING: Final = frozenset({
    errors.NOT_LEADER_OR_FOLLOWER,
    errors.LEADER_NOT_AVAILABLE,
    errors.UNKNOWN_TOPIC_OR_PARTITION,
    errors.UNKNOWN_TOPIC_ID,
    errors.OFFSET_NOT_AVAILABLE,
})  # fmt: skip
"""The errors of a leader that is elected or moves, and of a broker that has not heard of the topic yet."""


async def offsets_at(brokers: Brokers, topic: Topic, numbers: Collection[int], timestamp: int) -> dict[int, int]:
    """
    Return, for each partition, the offset of the first record at or after `timestamp`, or its end if there is none.

    Each leader is asked once for all its partitions, and again while leaders move.  Raise Refused.
    """
    found: dict[int, int] = {}

    async def attempt() -> dict[int, int] | None:
        by_leader: dict[BrokerId, list[int]] = {}
        for number in numbers:
            place = None if number in found else brokers.place(topic, number)
            if place is not None:
                by_leader.setdefault(place.leader, []).append(number)
        asked = (_listed(brokers, leader, topic, led, timestamp) for leader, led in by_leader.items())
        for answers in await asyncio.gather(*asked):
            found.update(answers)
        return found if len(found) == len(numbers) else None

    await retried(attempt, lambda: without_leader(topic, next(it for it in numbers if it not in found)))
    if newer_than_all := [number for number, offset in found.items() if offset < 0]:
        found |= await offsets_at(brokers, topic, newer_than_all, LOG_END)
    return found


async def _listed(
    brokers: Brokers, leader: BrokerId, topic: Topic, numbers: Collection[int], timestamp: int
) -> dict[int, int]:
    """Return a leader's answers; those that have to be asked for again are left out."""
    asked = list_offsets.Request.Topic
    partitions = [asked.Partition(partition_index=number, timestamp=timestamp) for number in numbers]
    request = list_offsets.Request(
        replica_id=CONSUMER_REPLICA_ID, topics=[asked(name=topic.name, partitions=partitions)]
    )
    try:
        response = await brokers.ask_listener(leader, list_offsets.API, request, REPEATABLE_S_MAX)
    except Unreachable:
        return {}
    answers = [it for it in response.topics[0].partitions if it.error_code not in MOVING]
    for it in answers:
        about = f"partition {it.partition_index} of topic {topic.name}"
        if it.error_code == errors.CORRUPT_MESSAGE:
            raise Refused(
                422,
                f"time={timestamp}: {about} has a batch of that time that its leader cannot look into, because it is "
                "damaged or decompresses to too many bytes: read from an offset",
                error=errors.name(it.error_code),
            )
        check(it.error_code, None, about)
    return {it.partition_index: it.offset for it in answers}
