"""`connect`: the client of a cluster for threads.  It runs the asynchronous client in a thread of its own."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import Self

from tidemill.model.back_off import BackOff
from tidemill.sdk.async_mill import BUFFER_S_MAX, AnyHandler, AsyncMill, no_room
from tidemill.sdk.delays import Due
from tidemill.sdk.durations import Duration, milliseconds
from tidemill.sdk.loop_thread import LoopThread
from tidemill.sdk.problems import SendFailed
from tidemill.sdk.queue import Queue
from tidemill.sdk.record import Headers, Sent, new_record
from tidemill.sdk.sender import HEADROOM_S, not_written
from tidemill.sdk.signals import stopped_by_signals
from tidemill.sdk.timers import Timers


class Mill:
    """The client of a cluster; threads may share it.  `connect` returns one."""

    def __init__(self, mill: AsyncMill) -> None:
        self._mill = mill
        self._loop = LoopThread()
        self._is_closed = False
        try:
            self._loop.call(mill.open())
        except BaseException:
            self._loop.close()
            raise

    def send(
        self,
        topic: str,
        value: object,
        *,
        key: str | bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: datetime | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        timer_id: str | bytes | None = None,
        schedule: str | None = None,
        timezone: str | None = None,
        missed: str | None = None,
    ) -> Sent:
        """
        Write a record, and return where it is when a majority of the replicas has synced it.

        Bytes and text are written as they are, None is a record without a value, and any other value is written as
        JSON.  Records with equal keys are in one partition, in their order.  `send_soon` is faster for many records.
        Raise SendFailed, or TypeError for a value that JSON cannot represent.

        Args:
            delay: How much later the record is delivered, on a timer topic: `"5m"`, a number of seconds, or a
                timedelta.
            at: When it is delivered, instead of `delay`.
            timer_id: The name of the timer: the record replaces the one that waits with this name in its partition, so
                it needs the same `key` each time, or a `partition`.
            schedule: When the record comes again and again: `"every 15m"`, or `"cron 30 8 * * MON-FRI"`.  It begins at
                `at`, and needs a `timer_id`.
            timezone: The time zone of a cron schedule, such as `"Europe/Berlin"`; UTC if it is missing.
            missed: What becomes of occurrences that an outage has delayed: `"one"`, the default, `"all"` or `"none"`.
        """
        self._loop.check_thread()
        sent = self.send_soon(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
            delay=delay,
            at=at,
            timer_id=timer_id,
            schedule=schedule,
            timezone=timezone,
            missed=missed,
        )
        return sent.result()

    def send_soon(
        self,
        topic: str,
        value: object,
        *,
        key: str | bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: datetime | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        timer_id: str | bytes | None = None,
        schedule: str | None = None,
        timezone: str | None = None,
        missed: str | None = None,
    ) -> "Future[Sent]":
        """
        Begin to write a record, as `send` does, and return a future of where it is.

        Its exception is SendFailed.  `flush` and `close` wait for all records that are on their way.  A record with
        `delay`, `at`, `timer_id` or `schedule` waits until a broker says whether the topic is a timer topic, unless it
        was asked in the last ten seconds.  So does, for at most two seconds, a record with headers that a timer topic
        would refuse.
        """
        record = new_record(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
            due=Due(delay, at, timer_id, schedule, timezone, missed),
        )
        sender = self._mill.sender()
        topics = self._mill.timer_topics
        if record.needs_timer_topic and not topics.is_known(topic):
            self._loop.call(topics.check(topic))
        problem = sender.problem(record)
        if problem is not None and not topics.is_other(topic) and self._loop.call(topics.is_timer(topic)):
            failed: Future[Sent] = Future()
            failed.set_exception(not_written(record, problem))
            return failed
        for _ in range(round(BUFFER_S_MAX / HEADROOM_S)):
            try:
                return sender.begin(record)
            except BufferError:
                sender.flush(HEADROOM_S)
        raise no_room(record)

    def flush(self, timeout: Duration = "60s") -> None:
        """Wait for the records that are on their way.  Raise SendFailed if some were not written in time."""
        if left := self._mill.sender().flush(milliseconds("timeout", timeout) / 1_000):
            raise SendFailed(f"{left} records were not written within {timeout}; they may be written later")

    def queue(
        self,
        topic: str,
        group: str,
        *,
        lease: Duration | None = None,
        prefetch: int = 1,
        partition: int | None = None,
        idle: Duration | None = None,
        consumer: str | None = None,
    ) -> Queue:
        """
        Return the messages of a topic that a share group delivers; `for` iterates over them.

        Args:
            lease: How long a message stays with a consumer that does not renew it, for example because it was killed;
                by default as the group says (`group.share.record.lock.duration.ms`).
            prefetch: How many messages are received at once, 1 to 500.  Those that wait are leased, too.
            partition: Receive from this partition only.
            idle: End the iteration when no message has come for so long.
            consumer: The name of the consumer, as `tidemill queue` shows it.
        """
        queue = self._mill.queue(
            topic, group, lease=lease, prefetch=prefetch, partition=partition, idle=idle, consumer=consumer
        )
        return Queue(queue, self._loop.call)

    def timers(self, topic: str) -> Timers:
        """Return the records that wait in a timer topic, to list, cancel and reschedule them."""
        return Timers(self._mill.timers(topic), self._loop.call)

    def worker(
        self,
        topic: str,
        *,
        group: str,
        concurrency: int = 1,
        backoff: BackOff | None = None,
        attempts: int | None = None,
        lease: Duration | None = None,
        grace: Duration = "30s",
    ) -> Callable[[AnyHandler], AnyHandler]:
        """
        Register a handler of messages, which `run` calls.

        The message is acknowledged when the handler returns.  If it raises an exception, this is logged, and the
        message is delivered again.  The handler may also acknowledge, release or reject the message itself.

        Args:
            group: The share group; its workers, in all processes, share the messages.
            concurrency: How many messages are handled at the same time, 1 to 500, each in a thread.
            backoff: The delay before a failed message is delivered again, such as `tidemill.exponential("1s",
                max="5m")`; by default as the group says (`tidemill.share.backoff`).
            attempts: After so many deliveries the message is set aside.  This sets `share.delivery.count.limit` of a
                group that has none; `run` refuses a group that has another one.  Workers of a group share the value.
            lease: As in `queue`.
            grace: How long a stop waits for handlers that run; their messages are then released.
        """
        return self._mill.worker(
            topic, group=group, concurrency=concurrency, backoff=backoff, attempts=attempts, lease=lease, grace=grace
        )

    def run(self) -> None:
        """
        Run the workers until `stop` is called, or the process gets SIGINT or SIGTERM.

        They then finish the messages that they have begun.  A second signal ends the process at once.
        """
        with stopped_by_signals(self.stop):
            self._loop.call(self._mill.run_workers())

    def stop(self) -> None:
        """Stop the workers, which finish the messages that they have begun."""
        self._loop.call_soon(self._mill.stop)

    def close(self) -> None:
        """
        Release the messages in hand, and wait for the records that are on their way.

        Raise SendFailed if some of them were not written in time.
        """
        if not self._is_closed:
            self._is_closed = True
            try:
                self._loop.call(self._mill.close())
            finally:
                self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(
    bootstrap: str | Sequence[str] | None = None,
    *,
    http: str | Sequence[str] | None = None,
    token: str | None = None,
    kafka: Mapping[str, object] | None = None,
    timeout: Duration = "30s",
) -> Mill:
    """
    Return a client that is connected to a cluster.

    Args:
        bootstrap: Kafka listeners of one or several brokers, such as `"127.0.0.1:9092"`.  Without it, records are sent
            over HTTP, too.
        http: URLs of brokers' HTTP listeners.  Without it, the brokers at `bootstrap` name them.
        token: The token in the brokers' `tidemill.http.token.file`, which they ask of clients on other machines.
        kafka: Further settings for librdkafka, such as `{"compression.type": "zstd"}`.
        timeout: How long a request, or the sending of a record, is repeated while no broker answers it.

    Raise BrokersUnavailable if no broker at `bootstrap` answers within 5 s, and ValueError for an argument that is not
    legal.  With `http`, the first request connects.
    """
    return Mill(AsyncMill(bootstrap, http=http, token=token, kafka=kafka, timeout=timeout))
