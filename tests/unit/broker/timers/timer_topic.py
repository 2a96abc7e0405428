"""A timer topic for unit tests: produce records that wait, and read those that have been released."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.batches.builder import build_batch
from tidemill.broker.timers.led_timers import LedTimers
from tidemill.model.timer_logs import arrivals_of
from tidemill.peer import timer_list, timer_resolve
from tidemill.shard.arrivals import timers_of
from tidemill.shard.partition import Partition
from tidemill.timer.timer_partition import TimerPartition
from tidemill.wire.messages import produce

TOPIC = "reminders"
Headers = Sequence[tuple[str, bytes | None]]


class Released(NamedTuple):
    offset: int
    value: bytes | None
    headers: dict[str, bytes | None]
    timestamp: int


def create(world: Any, **settings: str) -> None:
    world.create(TOPIC, tidemill_kind="timer", **settings)


def send(world: BrokerWorld, *records: tuple[bytes, Headers], **header: int) -> produce.Response.Topic.Partition:
    """Produce one batch of values with headers, with the key `k` and the present time, and return the response."""
    now = world.clock.now_ms
    batch = build_batch([(b"k", value, headers, now) for value, headers in records], **header)  # type: ignore[arg-type]
    return send_batch(world, batch)


def send_batch(world: BrokerWorld, batch: bytes | bytearray) -> produce.Response.Topic.Partition:
    answered: produce.Response.Topic.Partition = (
        world.ask(request(batch), version=12).responses[0].partition_responses[0]
    )
    return answered


def request(batch: bytes | bytearray) -> produce.Request:
    data = produce.Request.Topic.Partition(index=0, records=memoryview(batch))
    topics = [produce.Request.Topic(name=TOPIC, partition_data=[data])]
    return produce.Request(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=topics)


def delay(text: str | int) -> Headers:
    return [("tidemill-delay", str(text).encode())]


def due_at(time_ms: int) -> Headers:
    return [("tidemill-deliver-at", b"%d" % time_ms)]


def named(timer_id: str, headers: Headers = ()) -> Headers:
    return [*headers, ("tidemill-timer-id", timer_id.encode())]


def released(world: BrokerWorld) -> list[Released]:
    return [Released(it.offset, it.value, dict(it.headers), it.timestamp) for it in world.read(TOPIC)]


def values(world: BrokerWorld) -> list[bytes | None]:
    return [it.value for it in released(world)]


def timers(world: BrokerWorld) -> TimerPartition:
    return timers_of(world.partition(TOPIC))


def led(world: BrokerWorld) -> LedTimers:
    found = world.broker.timers.led(world.partition(TOPIC))
    assert found is not None, "the partition is not led here"
    return found


def arrivals(world: BrokerWorld) -> Partition:
    return world.partition(TOPIC).shard.partitions[arrivals_of(0)]  # type: ignore[attr-defined, no-any-return]


def topic_id(world: BrokerWorld) -> Any:
    return world.partition(TOPIC).log.topic_id


def resolve(world: BrokerWorld, **fields: Any) -> timer_resolve.Response:
    asked = timer_resolve.Request(topic_id=topic_id(world), partition=0, **fields)
    answered: timer_resolve.Response = world.ask(asked, version=0)
    return answered


def listed(world: BrokerWorld, **fields: Any) -> timer_list.Response:
    asked = timer_list.Request(topic_id=topic_id(world), partition=0, **fields)
    answered: timer_list.Response = world.ask(asked, version=0)
    return answered
