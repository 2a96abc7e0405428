"""How records are sent: each future gets an outcome."""

import asyncio
import re
import time
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError

from tidemill.sdk import sender as senders
from tidemill.sdk.problems import BrokersUnavailable, OutcomeUnknown, RequestRefused, SendFailed
from tidemill.sdk.record import NewRecord, Sent
from tidemill.sdk.sender import HttpSender, KafkaSender

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
RECORD = NewRecord("t", None, b"x", [], None, None)


def test_a_record_fails_when_no_broker_answers_in_time() -> None:
    sender = KafkaSender(NOWHERE, timeout_s=0.3)

    with pytest.raises(SendFailed, match="not written to topic t"):
        sender.begin(RECORD).result(20)
    sender.close()


def test_the_settings_may_give_another_time() -> None:
    sender = KafkaSender(NOWHERE | {"message.timeout.ms": 300}, timeout_s=3_000)

    with pytest.raises(SendFailed):
        sender.begin(RECORD).result(20)
    sender.close()


def test_a_record_that_is_left_at_the_end_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may wait for it."""
    monkeypatch.setattr(senders, "FLUSH_S_MAX", 0.2)
    sender = KafkaSender(NOWHERE, timeout_s=3_000)
    left = sender.begin(RECORD)

    with pytest.raises(SendFailed, match="1 records were not written"):
        sender.close()

    assert isinstance(left.exception(0), SendFailed)


def test_a_closed_sender_takes_no_record() -> None:
    sender = KafkaSender(NOWHERE, timeout_s=3_000)
    sender.close()

    with pytest.raises(ValueError, match="closed"):
        sender.begin(RECORD)


def test_a_flush_over_http_lasts_no_longer_than_it_may() -> None:
    """A send that is cancelled meanwhile does not fail it."""

    class Api:
        async def call(self, *_: Any, **__: Any) -> Any:
            await asyncio.sleep(60)

    async def run() -> tuple[int, float]:
        sender = HttpSender(Api(), asyncio.get_running_loop())  # type: ignore[arg-type]
        sent: list[Future[Sent]] = [sender.begin(RECORD) for _ in range(3)]
        began_at = time.monotonic()
        flushing = asyncio.create_task(asyncio.to_thread(sender.flush, 0.3))
        await asyncio.sleep(0.1)
        sent[0].cancel()
        left = await flushing
        for it in sent:
            it.cancel()
        return left, time.monotonic() - began_at

    left, lasted_s = asyncio.run(run())

    assert 2 == left
    assert lasted_s < 0.3 * 3


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (RequestRefused(404, "no such topic", {}), "a record was not written to topic t: no such topic"),
        (
            RequestRefused(503, "late", {"error": "REQUEST_TIMED_OUT"}),
            "a record may have been written to topic t: late",
        ),
        (
            RequestRefused(503, "few", {"error": "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}),
            "may have been written to topic t: f",
        ),
        (BrokersUnavailable("no broker"), "a record was not written to topic t: no broker"),
        (OutcomeUnknown("lost"), "a record may have been written to topic t: lost; look for it before"),
    ],
)
def test_a_failure_over_http_says_whether_the_record_may_be_written(problem: Exception, says: str) -> None:
    class Api:
        async def call(self, *_: Any, **__: Any) -> Any:
            raise problem

    async def run() -> Sent:
        sender = HttpSender(Api(), asyncio.get_running_loop())  # type: ignore[arg-type]
        return await asyncio.wrap_future(sender.begin(RECORD))

    with pytest.raises(SendFailed, match=re.escape(says)):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("code", "headers", "says"),
    [
        (KafkaError.INVALID_RECORD, [("tidemill-delay", b"soon")], "tidemill-delay='soon': write whole milliseconds"),
        (KafkaError.INVALID_RECORD, [("tidemill-delay", b"5m")], "tidemill.max.delay.ms of the topic"),
        (KafkaError.MSG_SIZE_TOO_LARGE, [("tidemill-delay", b"soon")], "Broker: Message size too large"),
    ],
)
def test_a_record_that_is_refused_fails_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, code: int, headers: Any, says: str
) -> None:
    """The client library does not pass on what brokers say.  The headers tell it, or another record is at fault."""

    class Producer:
        def produce(self, *_: object, on_delivery: Any, **__: object) -> None:
            on_delivery(KafkaError(code), None)

        def poll(self, _: float) -> None:
            time.sleep(0.01)  # as a poll waits

        def flush(self, _: float) -> int:
            return 0

    monkeypatch.setattr(senders.confluent_kafka, "Producer", lambda _: Producer())
    sender = KafkaSender(NOWHERE, timeout_s=1)
    record = NewRecord("t", None, b"x", headers, None, None)

    with pytest.raises(SendFailed, match=f"not written to topic t: .*{re.escape(says)}"):
        sender.begin(record).result(20)
    sender.close()
