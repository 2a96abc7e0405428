"""The Python client, with threads and with asyncio, on a cluster of three brokers."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tidemill
from tests.integration.cli.dev_cluster import Cluster
from tests.integration.http.http_client import HttpClient, wait_for, wait_until_known
from tests.integration.http.restarts import Restarts
from tidemill.sdk import leases

PARTITIONS = 3
MESSAGES = 60
IDLE = "10s"  # longer than any wait for a message that comes


@pytest.fixture
def mill(cluster: Cluster) -> Iterator[tidemill.Mill]:
    with tidemill.connect(cluster.bootstrap) as found:
        yield found


@pytest.fixture
def topic(brokers: list[HttpClient]) -> str:
    name = f"jobs-{uuid.uuid4().hex[:8]}"
    body = {"name": name, "partitions": PARTITIONS, "replication_factor": 3}
    assert 201 == brokers[0].send("POST", "/v1/topics", body).status
    wait_until_known(brokers, name)
    return name


@pytest.fixture
def group(mill: tidemill.Mill, topic: str) -> str:
    """The name of a group that has begun to use the topic, so that it gets the records that come."""
    name = f"g-{uuid.uuid4().hex[:8]}"
    with mill.queue(topic, name) as queue:
        assert [] == queue.receive(wait=0)
    return name


def connect_over_http(brokers: list[HttpClient]) -> tidemill.Mill:
    return tidemill.connect(http=[it.address for it in brokers])


@pytest.mark.parametrize("is_http", [False, True])
def test_what_is_sent_is_received(
    mill: tidemill.Mill, brokers: list[HttpClient], topic: str, group: str, is_http: bool
) -> None:
    """
    A record is sent by Kafka's protocol or over HTTP; its key, headers, timestamp and value come back as they are.
    """
    with ExitStack() as stack:
        client = stack.enter_context(connect_over_http(brokers)) if is_http else mill
        at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
        sent = client.send(topic, {"to": "ä"}, key="ann", headers=[("a", b"\xff"), ("a", None)], timestamp=at)
        queue = stack.enter_context(client.queue(topic, group, idle=IDLE))
        message = next(queue)
        message.ack()

    assert (sent.partition, sent.offset) == (message.partition, message.offset)
    assert (b"ann", {"to": "ä"}, at, 1) == (message.key, message.json(), message.timestamp, message.attempt)
    assert ((("a", b"\xff"), ("a", None)), None) == (message.headers, message.header("a"))


def test_equal_keys_go_to_one_partition_whichever_way_they_are_sent(
    mill: tidemill.Mill, brokers: list[HttpClient], topic: str
) -> None:
    with connect_over_http(brokers) as over_http:
        for number in range(20):
            by_kafka, by_http = (it.send(topic, None, key=f"k{number}") for it in (mill, over_http))
            assert by_kafka.partition == by_http.partition


def test_many_records_over_http_keep_the_order_of_their_keys(brokers: list[HttpClient], topic: str) -> None:
    """A wrong one among them fails alone."""
    with connect_over_http(brokers) as client:
        sent = [client.send_soon(topic, number, key=f"k{number % 10}") for number in range(3_000)]
        wrong = client.send_soon(topic, "wrong", partition=PARTITIONS)
        last = client.send_soon(topic, "last", key="k0")
        client.flush()

    places = [it.result(0) for it in sent]
    for key in range(10):
        of_key = places[key::10]
        assert 1 == len({it.partition for it in of_key})
        assert sorted(of_key) == of_key
    assert 3_000 == len({*places})
    with pytest.raises(tidemill.SendFailed, match=f"a record was not written .* no partition {PARTITIONS}"):
        wrong.result(0)
    assert last.result(0) > places[2_990]


def test_a_message_is_acknowledged_released_or_rejected(mill: tidemill.Mill, topic: str, group: str) -> None:
    sent = [mill.send_soon(topic, text, partition=0) for text in ("good", "again", "bad")]
    mill.flush()
    seen = []
    with mill.queue(topic, group, idle=IDLE) as queue:
        while len(seen) < 4:
            message = next(queue)
            seen.append((message.text(), message.attempt))
            match message.text():
                case "bad":
                    message.reject()
                case "again" if message.attempt == 1:
                    message.nack(delay="200ms")
                case _:
                    message.ack()
    with mill.queue(topic, group, idle="500ms") as queue:
        left = [*queue]
        totals = queue.describe()["partitions"][0]

    assert [0, 1, 2] == [it.result().offset for it in sent]
    assert ([("again", 1), ("again", 2), ("bad", 1), ("good", 1)], []) == (sorted(seen), left)
    assert (0, 0, 3) == (totals["available"], totals["locked"], totals["start"])


def test_messages_are_acknowledged_together(mill: tidemill.Mill, topic: str, group: str) -> None:
    for number in range(MESSAGES):
        mill.send_soon(topic, number)
    mill.flush()
    found: list[int] = []
    with mill.queue(topic, group) as queue:
        while len(found) < MESSAGES:
            messages = queue.receive(500)
            queue.ack(messages)
            found += [it.json() for it in messages]

    assert [*range(MESSAGES)] == sorted(found)


def test_a_lease_is_renewed_while_a_message_is_worked_on(
    monkeypatch: pytest.MonkeyPatch, mill: tidemill.Mill, topic: str, group: str
) -> None:
    """
    The lease lasts three seconds; after four, no other consumer has had the message.  It is renewed so often that it
    does not end if the machine stalls.
    """
    monkeypatch.setattr(leases, "RENEWALS", 30)
    mill.send(topic, "slow")
    with mill.queue(topic, group, lease="3s", idle=IDLE) as queue, mill.queue(topic, group) as other:
        message = next(queue)
        others = other.receive(wait="4s")
        message.ack()

    assert [] == others


def test_an_unfinished_message_is_delivered_again_when_the_queue_is_closed(
    mill: tidemill.Mill, topic: str, group: str
) -> None:
    mill.send(topic, "unfinished")
    with mill.queue(topic, group, idle=IDLE) as queue:
        first = next(queue)
    with pytest.raises(ValueError, match="finished already"):
        first.ack()
    with mill.queue(topic, group, idle=IDLE) as queue:
        again = next(queue)
        again.ack()

    assert (1, 2, first.offset) == (first.attempt, again.attempt, again.offset)


def test_a_topic_that_does_not_exist_is_refused_by_name(mill: tidemill.Mill) -> None:
    with mill.queue("nothing-here", "g") as queue, pytest.raises(tidemill.RequestRefused, match="nothing-here") as it:
        queue.receive(wait=0)

    assert 404 == it.value.status


def test_a_bootstrap_address_without_a_broker_is_named() -> None:
    with pytest.raises(tidemill.BrokersUnavailable, match=r"bootstrap='127\.0\.0\.1:1'"):
        tidemill.connect("127.0.0.1:1")


def test_a_worker_handles_messages_at_the_same_time(
    mill: tidemill.Mill, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Four handlers wait for each other.  One that fails is logged with its traceback, and gets the message again.
    """
    meeting = threading.Barrier(4)
    done: list[tuple[int, int]] = []

    @mill.worker(topic, group=group, concurrency=4, backoff=tidemill.constant("100ms"))
    def handle(message: tidemill.Message) -> None:
        number = message.json()
        if number == 3 and message.attempt == 1:
            raise LookupError("the third one fails")
        if message.attempt == 1 and number < 5:
            meeting.wait(20)
        done.append((number, message.attempt))
        if len(done) == 12:
            mill.stop()

    for number in [0, 1, 2, 4, *range(5, 12), 3]:
        mill.send_soon(topic, number)
    mill.run()

    assert [(number, 2 if number == 3 else 1) for number in range(12)] == sorted(done)
    (logged,) = [it for it in caplog.records if it.exc_info]
    assert "handle failed with the message at offset" in logged.getMessage()
    assert "delivered after 0.1 s" in logged.getMessage()
    assert isinstance(logged.exc_info[1], LookupError) if logged.exc_info else False


def test_a_handler_may_decide_itself(mill: tidemill.Mill, topic: str, group: str) -> None:
    seen: list[int] = []

    @mill.worker(topic, group=group)
    def handle(message: tidemill.Message) -> None:
        seen.append(message.attempt)
        if message.attempt == 1:
            message.nack(delay="50ms")
        else:
            message.reject()
            mill.stop()

    mill.send(topic, "x")
    mill.run()

    assert [1, 2] == seen


@pytest.mark.parametrize("is_async", [False, True])
def test_attempts_are_the_limit_of_the_group(
    mill: tidemill.Mill, brokers: list[HttpClient], topic: str, group: str, is_async: bool
) -> None:
    """
    A group without a limit gets it; a message that fails so often is delivered no more.  Another worker with another
    number is refused.
    """
    attempts: list[int] = []

    @mill.worker(topic, group=group, attempts=3, backoff=tidemill.constant("10ms"))
    def fail(message: tidemill.Message) -> None:
        attempts.append(message.attempt)
        if message.attempt == 3:
            mill.stop()
        raise LookupError

    mill.send(topic, "bad")
    mill.run()
    with mill.queue(topic, group) as queue:
        left = queue.receive(wait="1s")

    async def other() -> None:
        async with tidemill.connect_async(http=brokers[0].address) as client:

            @client.worker(topic, group=group, attempts=4)
            def refused(message: tidemill.Message) -> None: ...

            await client.run()

    def other_thread() -> None:
        with connect_over_http(brokers) as client:

            @client.worker(topic, group=group, attempts=4)
            def refused(message: tidemill.Message) -> None: ...

            client.run()

    assert ([1, 2, 3], []) == (attempts, left)
    configs = brokers[0].ok("GET", f"/v1/groups/{group}")["configs"]
    assert "3" == configs["share.delivery.count.limit"]
    with pytest.raises(ValueError, match=f"attempts=4: group {group} has share.delivery.count.limit=3"):
        asyncio.run(other()) if is_async else other_thread()


def test_a_limit_that_was_set_before_the_group_exists_is_kept(
    mill: tidemill.Mill, brokers: list[HttpClient], topic: str
) -> None:
    group = f"new-{topic}"
    path, limit = f"/v1/groups/{group}", {"share.delivery.count.limit": "7"}
    assert 204 == brokers[0].send("PATCH", path, {"configs": limit}).status
    for broker in brokers:
        wait_for(lambda broker=broker: limit == broker.send("GET", path).body["configs"], "the limit is not known")

    @mill.worker(topic, group=group, attempts=3)
    def handle(message: tidemill.Message) -> None: ...

    with pytest.raises(ValueError, match=f"attempts=3: group {group} has share.delivery.count.limit=7"):
        mill.run()
    assert (404, limit) == (brokers[1].send("GET", path).status, brokers[1].send("GET", path).body["configs"])


def test_what_a_worker_cannot_have_is_named(mill: tidemill.Mill, topic: str, group: str) -> None:
    with pytest.raises(TypeError, match="backoff='1s'"):
        mill.worker(topic, group=group, backoff="1s")(print)  # type: ignore[arg-type]

    @mill.worker(topic, group=group, attempts=1)
    def handle(message: tidemill.Message) -> None: ...

    with pytest.raises(ValueError, match=f"attempts=1 of group {group} is refused: .*share.delivery.count.limit=1"):
        mill.run()


def test_the_client_works_with_asyncio(cluster: Cluster, topic: str, group: str) -> None:
    async def run() -> tuple[list[int], list[int]]:
        async with tidemill.connect_async(cluster.bootstrap) as mill:
            await asyncio.gather(*(mill.send(topic, number) for number in range(MESSAGES)))
            iterated: list[int] = []
            async with mill.queue(topic, group, prefetch=10) as queue:
                async for message in queue:
                    iterated.append(message.json())
                    await message.ack()
                    if len(iterated) == MESSAGES // 2:
                        break
            handled: list[int] = []

            @mill.worker(topic, group=group, concurrency=10)
            async def handle(message: tidemill.AsyncMessage) -> None:
                handled.append(message.json())
                if len(handled) == MESSAGES - len(iterated):
                    mill.stop()

            await mill.run()
            return iterated, handled

    iterated, handled = asyncio.run(run())

    assert [*range(MESSAGES)] == sorted(iterated + handled)


WORKER = r"""
    import logging, os, sys, tidemill
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    logging.getLogger("tidemill").setLevel(logging.INFO)
    mill = tidemill.connect(sys.argv[1])

    @mill.worker(sys.argv[2], group=sys.argv[3], concurrency=2)
    def handle(message):
        os.write(1, f"begun {message.text()}\n".encode())  # at once, unlike print
        os.read(0, 1)
        os.write(1, f"ended {message.text()}\n".encode())

    mill.run()
    mill.close()
    print("stopped", flush=True)
"""


def test_a_worker_finishes_what_it_has_begun_when_it_is_stopped(
    cluster: Cluster, mill: tidemill.Mill, topic: str, group: str, tmp_path: Path
) -> None:
    """
    SIGTERM comes while two of three messages are handled: they are finished, and the third one stays in the queue.
    """
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    for number in range(3):
        mill.send(topic, str(number), partition=0)
    command = [sys.executable, str(script), cluster.bootstrap, topic, group]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        begun = [process.stdout.readline().split()[1] for _ in range(2)]
        os.kill(process.pid, signal.SIGTERM)
        stopping = process.stdout.readline()
        process.stdin.write("12")
        process.stdin.flush()
        after = process.stdout.read().split("\n")
    with mill.queue(topic, group, idle=IDLE) as queue:
        left = next(queue)
        left.ack()

    assert (0, "handle stops; messages in hand: 2\n") == (process.returncode, stopping)
    assert sorted([f"ended {it}" for it in begun] + ["stopped", ""]) == sorted(after)
    assert ({"0", "1", "2"} - {*begun}, 1) == ({left.text()}, left.attempt)


def test_a_client_goes_on_when_a_broker_is_killed(
    cluster: Cluster, brokers: list[HttpClient], restarts: Restarts, topic: str, group: str
) -> None:
    """
    While messages are sent and handled, the broker that led one of the partitions is killed: none is lost.
    """
    victim = cluster.brokers[brokers[0].ok("GET", f"/v1/topics/{topic}")["partitions"][0]["leader"] - 1]
    sent, handled = set[int](), set[int]()
    with tidemill.connect(cluster.bootstrap) as mill:

        @mill.worker(topic, group=group, concurrency=4, lease="2s", backoff=tidemill.constant("100ms"))
        def handle(message: tidemill.Message) -> None:
            handled.add(message.json())

        def send() -> None:
            for number in range(200):
                mill.send(topic, number)
                sent.add(number)

        def kill() -> None:
            wait_for(lambda: len(sent) >= 20, "the first messages were not sent")
            restarts.kill(victim)
            wait_for(lambda: len(sent) == 200 and sent <= handled, "some messages were not handled")

        threads = [threading.Thread(target=it) for it in (send, kill)]
        stopping = threading.Thread(target=lambda: (threads[1].join(), mill.stop()))
        for thread in [*threads, stopping]:
            thread.start()
        mill.run()

    restarts.restart(victim)
    wait_until_known(brokers, topic)
    assert {*range(200)} == sent == handled


def test_a_token_is_sent() -> None:
    """`tests/integration/app` tests what a broker does with it."""
    with tidemill.connect(http="127.0.0.1:1", token="secret", timeout="1ms") as mill:
        call: Callable[[], object] = lambda: mill.queue("t", "g").receive(wait=0)  # noqa: E731
        with pytest.raises(tidemill.BrokersUnavailable, match=r"http://127\.0\.0\.1:1"):
            call()


@pytest.mark.parametrize("is_http", [False, True])
def test_a_delay_needs_a_timer_topic(mill: tidemill.Mill, brokers: list[HttpClient], topic: str, is_http: bool) -> None:
    """
    The record is not sent to a topic of another kind, nor to one that is missing, which is not created.
    """
    client = connect_over_http(brokers) if is_http else mill
    missing = f"missing-{uuid.uuid4().hex[:8]}"

    with pytest.raises(tidemill.SendFailed, match=r"create the topic with tidemill\.kind=timer"):
        client.send(topic, "x", delay="5m")
    with pytest.raises(tidemill.SendFailed, match=r"create it with .* tidemill\.kind=timer"):
        client.send(missing, "x", at=datetime.now(UTC))

    assert 404 == brokers[0].send("GET", f"/v1/topics/{missing}").status
    partitions = [
        brokers[0].ok("GET", f"/v1/topics/{topic}/partitions/{number}/records") for number in range(PARTITIONS)
    ]
    assert [[]] * PARTITIONS == [it["records"] for it in partitions]
    if is_http:
        client.close()


def test_a_delay_is_accepted_by_a_timer_topic(mill: tidemill.Mill, brokers: list[HttpClient]) -> None:
    """
    With both clients, at once after the topic was created.
    """
    name = f"timers-{uuid.uuid4().hex[:8]}"
    assert 201 == brokers[0].send("POST", "/v1/topics", {"name": name, "kind": "timer", "partitions": 1}).status

    async def send() -> int:
        async with tidemill.connect_async(http=[it.address for it in brokers]) as found:
            sent = await found.send(name, "x", key="k", at=datetime.now(UTC), timer_id="a")
            return sent.offset

    assert 0 == mill.send(name, "x", delay="1h").offset
    assert 1 == asyncio.run(send())
