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


def test_a_record_that_never_has_room_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    One that only has to wait is refused in another way: the caller tries again.  The client has no brokers, because
    librdkafka counts an error of a connection, until it is polled, as a record that is on its way.
    """
    monkeypatch.setattr(senders, "FLUSH_S_MAX", 0.2)
    sender = KafkaSender({"log_level": 0, "queue.buffering.max.kbytes": 100}, timeout_s=3_000)
    large = NewRecord("t", None, bytes(200_000), [], None, None)

    with pytest.raises(SendFailed, match=r"topic t: it is larger than queue\.buffering\.max\.kbytes"):
        sender.begin(large)
    waiting = sender.begin(RECORD)
    with pytest.raises(BufferError):
        sender.begin(large)

    with pytest.raises(SendFailed, match="1 records were not written"):
        sender.close()
    assert isinstance(waiting.exception(0), SendFailed)


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

        def __len__(self) -> int:
            return 0

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


@pytest.mark.parametrize(("given", "expected"), [({}, BATCH_SCHEDULES_MAX), ({"batch.num.messages": 10_000}, 10_000)])
def test_a_batch_has_no_more_records_than_schedules_are_allowed(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, int], expected: int
) -> None:
    """Each record may be a schedule.  Users whose records are not may set more."""
    settings: list[Any] = []

    class Producer:
        poll = flush = staticmethod(lambda _: 0)

    def created(given: Any) -> Producer:
        settings.append(given)
        return Producer()

    monkeypatch.setattr(senders.confluent_kafka, "Producer", created)
    KafkaSender(NOWHERE | given, timeout_s=1).close()

    assert [expected] == [it["batch.num.messages"] for it in settings]


def test_schedules_that_cannot_be_written_hold_up_no_others() -> None:
    """Their brokers may be dead, and those of another topic are not."""
    sender = KafkaSender(NOWHERE, timeout_s=0.3)
    schedule = RECORD._replace(headers=[("tidemill-schedule", b"every 1h")])

    sent = [sender.begin(schedule) for _ in range(2 * BATCH_SCHEDULES_MAX)]
    sent.append(sender.begin(schedule._replace(topic="other")))
    sender.close()

    assert all(isinstance(it.exception(20), SendFailed) for it in sent)
