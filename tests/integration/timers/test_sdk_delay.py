"""Records that the Python client delays are delivered when they are due, on a cluster of three brokers."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import tidemill
from tests.integration.cli.dev_cluster import Cluster
from tests.integration.http.http_client import HttpClient, wait_until_known
from tidemill.timer.schedule import BATCH_SCHEDULES_MAX

IDLE = "10s"  # longer than any wait for a message that comes
MILLISECOND = timedelta(milliseconds=1)  # brokers keep times in whole ones


@pytest.fixture
def topic(brokers: list[HttpClient]) -> str:
    name = f"timers-{uuid.uuid4().hex[:12]}"
    body = {"name": name, "kind": "timer", "partitions": 1, "replication_factor": 3}
    assert 201 == brokers[0].send("POST", "/v1/topics", body).status
    earliest = {"configs": {"share.auto.offset.reset": "earliest"}}
    assert 204 == brokers[0].send("PATCH", f"/v1/groups/g-{name}", earliest).status
    wait_until_known(brokers, name)
    return name


def connection(cluster: Cluster, *, is_http: bool) -> dict[str, Any]:
    return {"http": [broker["http"] for broker in cluster.brokers]} if is_http else {"bootstrap": cluster.bootstrap}


def now() -> datetime:
    return datetime.now(UTC)


def due(message: tidemill.Message) -> datetime:
    """Return when a delivered message was due, as its broker has written it."""
    written = message.header("tidemill-deliver-at")
    assert written is not None, message
    return datetime.fromtimestamp(int(written) / 1_000, UTC)


@pytest.mark.parametrize("is_http", [False, True])
def test_messages_are_received_when_they_are_due(cluster: Cluster, topic: str, is_http: bool) -> None:
    """
    A delay is a text, a number of seconds or a timedelta; a time is a datetime; and a message without them is due now.

    A delay counts from the append, so that the order of delays and times depends on how long the sends took.
    """
    with tidemill.connect(**connection(cluster, is_http=is_http)) as mill:
        began = now()
        mill.send_soon(topic, "4", delay=timedelta(seconds=4))
        mill.send_soon(topic, "3", delay="3s")
        mill.send_soon(topic, "2", at=began + timedelta(seconds=2))
        mill.send_soon(topic, "1.5", delay=1.5)
        mill.send_soon(topic, "0", headers={"mine": "kept"})
        mill.flush()
        written = now()

        with mill.queue(topic, f"g-{topic}", idle=IDLE) as queue:
            received = [(next(queue), now()) for _ in range(5)]
            queue.ack(message for message, _ in received)

    messages = {message.text(): message for message, _ in received}
    assert {"0", "1.5", "2", "3", "4"} == {*messages}
    for text in ("1.5", "3", "4"):
        delay = timedelta(seconds=float(text))
        assert began + delay - MILLISECOND < due(messages[text]) <= written + delay, text
    assert abs(began + timedelta(seconds=2) - due(messages["2"])) < MILLISECOND
    assert b"kept" == messages["0"].header("mine")
    delayed = [(due(message), seen) for message, seen in received if message.text() != "0"]
    assert sorted(delayed) == delayed
    assert all(due_at <= seen for due_at, seen in delayed)


def test_the_asynchronous_client_delays_messages(cluster: Cluster, topic: str) -> None:
    """
    Many at the same time, of which each is received once, and none early.
    """

    async def run() -> tuple[datetime, list[tuple[str, datetime]]]:
        async with tidemill.connect_async(cluster.bootstrap) as mill:
            began = now()
            await asyncio.gather(*(mill.send(topic, str(ms), delay=f"{ms}ms") for ms in range(1_000, 3_000, 20)))
            received = []
            async with mill.queue(topic, f"g-{topic}", prefetch=100, idle="3s") as queue:
                async for message in queue:
                    received.append((message.text(), now()))
                    await message.ack()
            return began, received

    began, received = asyncio.run(run())

    assert [str(ms) for ms in range(1_000, 3_000, 20)] == sorted((text for text, _ in received), key=int)
    assert all(began + timedelta(milliseconds=int(text)) <= seen for text, seen in received)


def test_a_timer_is_replaced_by_its_id(cluster: Cluster, topic: str) -> None:
    """
    The message that waited with the same id does not wait any more.
    """
    with tidemill.connect(cluster.bootstrap) as mill:
        mill.send(topic, "first", key="k", delay="1h", timer_id="reminder")
        mill.send(topic, "second", key="k", delay="1s", timer_id="reminder")

        with mill.queue(topic, f"g-{topic}", idle="3s") as queue:
            received = []
            for message in queue:
                received.append(message.text())
                message.ack()

        assert [] == mill.timers(topic).list()
    assert ["second"] == received


def test_a_message_with_a_schedule_is_received_again_and_again(cluster: Cluster, topic: str) -> None:
    """
    Until it is cancelled.
    """
    with tidemill.connect(cluster.bootstrap) as mill:
        mill.send(topic, "tick", key="k", timer_id="tick", schedule="every 1s", missed="all")
        mill.send(topic, "later", key="l", timer_id="cron", schedule="cron 0 8 29 2 *", timezone="Europe/Berlin")
        with mill.queue(topic, f"g-{topic}", idle="4s") as queue:
            received = []
            for message in queue:
                received.append(message.text())
                message.ack()
                if len(received) == 3:
                    assert 1 == mill.timers(topic).cancel(timer_id="tick")
        (waiting,) = mill.timers(topic).list()

    assert ["tick"] * 3 == received[:3]
    assert {"tick"} == {*received}
    assert b"cron" == waiting.timer_id
    assert 29 == waiting.due.astimezone(ZoneInfo("Europe/Berlin")).day


def test_a_record_that_brokers_refuse_is_refused_with_the_reason(cluster: Cluster, topic: str) -> None:
    """
    By Kafka's protocol as well as over HTTP.
    """
    reason = "tidemill-schedule='hourly': write cron and five fields"
    with tidemill.connect(cluster.bootstrap) as kafka, tidemill.connect(http=cluster.brokers[0]["http"]) as http:
        for mill in (kafka, http):
            with pytest.raises(tidemill.SendFailed, match=reason):
                mill.send(topic, "x", key="k", timer_id="x", schedule="hourly")
            with pytest.raises(tidemill.SendFailed, match=r"tidemill-missed=all: up to 86[0-9]{3} occurrences"):
                begin = datetime.now(UTC) - timedelta(days=1)
                mill.send(topic, "x", key="k", timer_id="x", schedule="every 1s", missed="all", at=begin)
            with pytest.raises(tidemill.SendFailed, match="tidemill-delay='soon': write whole milliseconds"):
                mill.send(topic, "x", headers={"tidemill-delay": "soon"})


@pytest.mark.parametrize("is_http", [False, True])
@pytest.mark.parametrize(
    "bad",
    [{"key": "k", "timer_id": "x", "schedule": "hourly"}, {"headers": {"tidemill-delay": "soon"}}],
    ids=["schedule", "by hand"],
)
def test_a_record_that_is_refused_fails_alone(cluster: Cluster, topic: str, is_http: bool, bad: dict[str, Any]) -> None:
    """
    The records before and after it, which would share its batch, are written.
    """
    with tidemill.connect(**connection(cluster, is_http=is_http)) as mill:
        sent = [mill.send_soon(topic, str(number), delay="1h") for number in range(10)]
        refused = mill.send_soon(topic, "bad", **bad)
        sent += [mill.send_soon(topic, str(number), delay="1h") for number in range(10, 20)]

        assert isinstance(refused.exception(30), tidemill.SendFailed)
        assert [*range(20)] == [it.result(30).offset for it in sent]


@pytest.mark.parametrize("is_http", [False, True])
def test_more_schedules_are_sent_than_a_batch_may_have(cluster: Cluster, topic: str, is_http: bool) -> None:
    count = 3 * BATCH_SCHEDULES_MAX
    with tidemill.connect(**connection(cluster, is_http=is_http)) as mill:
        ids = [f"t{it}" for it in range(count)]
        sent = [mill.send_soon(topic, "x", key=it, timer_id=it, schedule="every 1h") for it in ids]

        assert [*range(count)] == sorted(it.result(30).offset for it in sent)
