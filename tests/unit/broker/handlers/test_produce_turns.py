"""Batches for timer topics may take long: other connections are served between them."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.broker.broker_world import BEGIN_MS, BrokerWorld, Client
from tidemill.batches.builder import build_batch
from tidemill.broker.handlers import produce as handler
from tidemill.broker.timers.arrival_turns import TURN_MS_MAX
from tidemill.model import errors
from tidemill.shard.append import Appended
from tidemill.wire.messages import list_offsets, produce
from tidemill.wire.messages.produce import Request

VERSION = 12
PARTITIONS = 5
BATCH_MS = TURN_MS_MAX // 2


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    """A batch takes half of a turn."""
    world = BrokerWorld()
    world.create("reminders", partitions=PARTITIONS, tidemill_kind="timer")
    append = handler.append_batch

    def slow(*arguments: Any) -> Any:
        world.clock.now_ms += BATCH_MS
        return append(*arguments)

    monkeypatch.setattr(handler, "append_batch", slow)
    return world


def batch(value: bytes) -> memoryview:
    return memoryview(build_batch([(b"k", value, [("tidemill-delay", b"1h")], BEGIN_MS)]))


def send(client: Client, values: Sequence[bytes], acks: int = -1) -> None:
    """Send a request with a batch for each partition."""
    data = [Request.Topic.Partition(index=number, records=batch(it)) for number, it in enumerate(values)]
    topics = [Request.Topic(name="reminders", partition_data=data)]
    client.send(Request(transactional_id=None, acks=acks, timeout_ms=1_000, topic_data=topics), VERSION)


def results(answered: Any) -> list[tuple[int, int, int]]:
    return [(it.index, it.error_code, it.base_offset) for it in answered.responses[0].partition_responses]


def appended(world: BrokerWorld) -> int:
    """Return how many batches are in the logs of records that wait."""
    logs = [world.partition("reminders", number).arrivals for number in range(PARTITIONS)]
    return sum(it.log.end_offset for it in logs if it is not None)


def counts_of_turns(world: BrokerWorld) -> list[int]:
    """Execute all pending work, and return how many batches each turn has appended, from the first on."""
    counts = [appended(world)]
    while world.step():
        counts.append(appended(world) - sum(counts))
    return [it for it in counts if it]


@pytest.mark.parametrize("acks", [-1, 1, 0])
def test_the_batches_of_a_request_are_appended_in_several_turns(world: BrokerWorld, acks: int) -> None:
    """
    Each partition has its own result, in the order of the request, when all are appended.
    """
    client = Client(world)

    send(client, [b"%d" % number for number in range(PARTITIONS)], acks)
    counts = counts_of_turns(world)

    assert [2, 2, 1] == counts
    if acks:
        assert [(number, errors.NONE, 0) for number in range(PARTITIONS)] == results(
            client.answer(produce.API, VERSION)
        )
    assert client.writer.is_reading


def test_later_requests_of_the_connection_wait_for_them(world: BrokerWorld) -> None:
    """
    Batches stay in order, and a request that is not Produce sees what came before it.
    """
    client, other = Client(world), Client(world)
    latest = [list_offsets.Request.Topic.Partition(partition_index=0, timestamp=-1)]

    send(client, [b"a"] * PARTITIONS)
    send(client, [b"b"] * PARTITIONS)
    client.send(
        list_offsets.Request(replica_id=-1, topics=[list_offsets.Request.Topic(name="reminders", partitions=latest)]), 5
    )
    send(other, [b"c"])
    counts = counts_of_turns(world)

    assert [2, 2, 2, 2, 2, 1] == counts
    first, second = (results(client.answer(produce.API, VERSION)) for _ in range(2))
    assert [0] * PARTITIONS == [offset for _, _, offset in first]
    assert [2, 1, 1, 1, 1] == [offset for _, _, offset in second]
    assert [(0, errors.NONE, 1)] == results(other.answer(produce.API, VERSION))
    assert client.answer(list_offsets.API, 5) is not None


def test_requests_of_a_connection_are_begun_in_several_turns(world: BrokerWorld) -> None:
    client = Client(world)
    client.connection.pause_writing()
    for _ in range(5):
        send(client, [b"x"])
    client.connection.resume_writing()

    assert [2, 1, 2] == counts_of_turns(world)
    assert [0, 1, 2, 3, 4] == [results(client.answer(produce.API, VERSION))[0][2] for _ in range(5)]


def test_all_connections_share_a_turn(world: BrokerWorld) -> None:
    """Those that have waited longer come first."""
    clients = [Client(world) for _ in range(5)]

    for client in clients:
        send(client, [b"x"])

    assert [2, 2, 1] == counts_of_turns(world)
    assert [0, 1, 2, 3, 4] == [results(it.answer(produce.API, VERSION))[0][2] for it in clients]


def test_batches_that_wait_are_not_looked_at_in_each_turn(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of many tiny batches would otherwise take time that grows with the square of their number."""
    looked_at = 0
    refusal = handler._Production._refusal

    def counted(*arguments: Any) -> Appended | None:
        nonlocal looked_at
        looked_at += 1
        return refusal(*arguments)

    monkeypatch.setattr(handler._Production, "_refusal", counted)
    count = 100
    data = [Request.Topic.Partition(index=0, records=batch(b"x")) for _ in range(count)]
    topics = [Request.Topic(name="reminders", partition_data=data)]
    client = Client(world)

    client.send(Request(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=topics), VERSION)

    assert [2] * (count // 2) == counts_of_turns(world)
    assert [(0, errors.NONE, offset) for offset in range(count)] == results(client.answer(produce.API, VERSION))
    assert looked_at <= 3 * count


def test_a_request_to_another_topic_does_not_wait(world: BrokerWorld) -> None:
    """Only batches of timer topics do: those of others take no time worth mentioning."""
    world.create("flights", partitions=PARTITIONS)
    data = [Request.Topic.Partition(index=number, records=batch(b"x")) for number in range(PARTITIONS)]
    topics = [Request.Topic(name="flights", partition_data=data)]

    Client(world).send(Request(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=topics), VERSION)

    assert [1] * PARTITIONS == [world.partition("flights", number).log.end_offset for number in range(PARTITIONS)]
