"""Produces the records of a run, and later those that cancel or replace some of them."""

import threading
import time
from collections import deque

from confluent_kafka import KafkaError, Message, Producer

from tests.fault.steady_load import QUICK
from tests.fault.timers.delayed_records import BY_RECORD, DelayedRecords, Plan

LEFT_S = 120.0  # the longest wait for the last acknowledgements
REQUEST_MS_MAX = 1_500
PAUSE_S = 0.05
CHANGE_S = 0.02  # between two looks for changes whose time has come
CHANGES_MAX = 500  # of a partition at once: few enough for one batch


class TimerProducer(threading.Thread):
    """
    Produces the records at once, then the changes at their times.  Every record must be acknowledged.

    Changes wait here while earlier ones of their partition are not acknowledged.  If they waited in librdkafka, which
    has few requests of an idempotent producer in flight, its thread would take a whole core from the brokers.
    """

    def __init__(self, bootstrap: str, topic: str, records: DelayedRecords) -> None:
        super().__init__(name="timer producer", daemon=True)
        self._topic = topic
        self._records = records
        self._unanswered = [0] * records.partitions  # changes
        self._client = Producer({
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "message.timeout.ms": 600_000,
            "request.timeout.ms": REQUEST_MS_MAX,
            "socket.timeout.ms": REQUEST_MS_MAX,
            **QUICK,
        })  # fmt: skip
        self.has_produced = threading.Event()  # all records but the changes
        self.failures: list[str] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._produce_all()
            self.has_produced.set()
            self._change()
            left = self._client.flush(LEFT_S)
            assert left == 0, f"{left} records were not acknowledged"
        except BaseException as error:
            self.error = error
            self.has_produced.set()
            raise

    def _produce_all(self) -> None:
        records = self._records
        for number in range(records.count):
            headers = [("tidemill-deliver-at", b"%d" % records.due_ms[number])]
            if records.has_id(number):
                headers.append(("tidemill-timer-id", records.timer_id(number)))
            self._produce(number, headers, number)
        left = self._client.flush(LEFT_S)
        assert left == 0, f"{left} records were not acknowledged"

    def _change(self) -> None:
        records = self._records
        left = [deque[int]() for _ in range(records.partitions)]
        for number in records.changes(BY_RECORD):
            left[records.partition(number)].append(number)
        while any(left):
            now_ms = time.time() * 1_000
            for partition, waiting in enumerate(left):
                is_free = not self._unanswered[partition]
                while is_free and waiting and records.change_ms[waiting[0]] <= now_ms:
                    self._change_one(waiting.popleft())
                    is_free = self._unanswered[partition] < CHANGES_MAX
            self._client.poll(0)
            time.sleep(CHANGE_S)

    def _change_one(self, number: int) -> None:
        records = self._records
        headers = [("tidemill-timer-id", records.timer_id(number))]
        self._unanswered[records.partition(number)] += 1
        if records.plans[number] == Plan.REPLACE:
            headers.append(("tidemill-deliver-at", b"%d" % records.new_due_ms[number]))
            self._produce(number + records.count, headers, number)
        else:
            headers.append(("tidemill-cancel", b""))
            self._produce(None, headers, number)

    def _produce(self, number: int | None, headers: list[tuple[str, bytes]], concerned: int) -> None:
        """Produce a record with a number, or one that only cancels.  It may concern another record that waits."""
        records = self._records

        def answered(error: KafkaError | None, message: Message) -> None:
            now_ms = time.time_ns() // 1_000_000
            if error is not None:
                self.failures.append(f"{number}, which concerns {concerned}: {error}")
                return
            if number is not None:
                records.arrivals[number] = message.offset()
                records.acknowledged_ms[number] = now_ms
            if number != concerned:
                records.gone_ms[concerned] = now_ms
                self._unanswered[records.partition(concerned)] -= 1

        while True:
            try:
                self._client.produce(
                    self._topic,
                    b"" if number is None else b"%d" % number,
                    partition=records.partition(concerned),
                    headers=headers,
                    on_delivery=answered,
                )
                break
            except BufferError:
                self._client.poll(PAUSE_S)
        self._client.poll(0)
