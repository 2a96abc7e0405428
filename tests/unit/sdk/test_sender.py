"""How records are sent: each future gets an outcome."""

import re
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError

from tidemill.sdk import sender as senders
from tidemill.sdk.problems import SendFailed
from tidemill.sdk.record import NewRecord
from tidemill.sdk.sender import KafkaSender
from tidemill.timer.schedule import BATCH_SCHEDULES_MAX

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


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ([], None),
        ([("mine", b"x")], None),
        ([("tidemill-delay", b"5m")], None),
        ([("tidemill-delay", b"soon")], "write whole milliseconds"),
        ([("mine", None)] * 10_001, "send at most 10000"),
    ],
)
def test_what_a_timer_topic_would_refuse_is_known_before(headers: Any, says: str | None) -> None:
    sender = KafkaSender(NOWHERE, timeout_s=1)
    problem = sender.problem(NewRecord("t", None, b"x", headers, None, None))
    sender.close()

    assert problem is None if says is None else says in str(problem)


def test_schedules_on_their_way_fit_into_one_batch() -> None:
    """librdkafka may put all of them into one, which brokers would refuse whole.  What has failed counts no longer."""
    sender = KafkaSender(NOWHERE, timeout_s=0.5)
    schedule = RECORD._replace(headers=[("tidemill-schedule", b"every 1h")])

    sent = [sender.begin(schedule) for _ in range(BATCH_SCHEDULES_MAX)]
    with pytest.raises(BufferError):
        sender.begin(schedule)
    sender.begin(RECORD)  # it has no schedule
    for it in sent:
        assert isinstance(it.exception(20), SendFailed)

    again = [sender.begin(schedule) for _ in range(BATCH_SCHEDULES_MAX)]
    with pytest.raises(BufferError):
        sender.begin(schedule)
    sender.close()
    assert all(isinstance(it.exception(20), SendFailed) for it in again)
    for _ in range(BATCH_SCHEDULES_MAX + 1):
        with pytest.raises(ValueError, match="closed"):
            sender.begin(schedule)
