"""`connect_async`: the client of a cluster for asyncio."""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from threading import Lock
from types import TracebackType
from typing import Final, Self, TypeVar

from tidemill.model.back_off import BackOff
from tidemill.model.delayed_record import TIMER_HEADERS
from tidemill.sdk.api_client import ApiClient
from tidemill.sdk.async_queue import AsyncQueue
from tidemill.sdk.async_timers import AsyncTimers
from tidemill.sdk.delays import Due
from tidemill.sdk.discovery import http_addresses
from tidemill.sdk.durations import Duration, milliseconds
from tidemill.sdk.http_sender import HttpSender
from tidemill.sdk.kafka_settings import BOOTSTRAP
from tidemill.sdk.loop_thread import check_process
from tidemill.sdk.problems import SendFailed
from tidemill.sdk.record import Headers, NewRecord, Sent, new_record
from tidemill.sdk.sender import HEADROOM_S, KafkaSender, Sender, not_written
from tidemill.sdk.signals import stopped_by_signals
from tidemill.sdk.timer_topics import TimerTopics
from tidemill.sdk.worker import Handler, Worker

BUFFER_S_MAX: Final = 60.0  # how long a record waits for room in the sender while no other one gets any
AnyHandler = TypeVar("AnyHandler", bound=Handler)


class AsyncMill:
    """
    The client of a cluster, for one event loop.  Use it with `async with`.

    Records are sent by Kafka's protocol if there is a bootstrap address, and over HTTP otherwise.  Queues use HTTP.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        http: str | Sequence[str] | None = None,
        token: str | None = None,
        kafka: Mapping[str, object] | None = None,
        timeout: Duration = "30s",
    ) -> None:
        if bootstrap is None and http is None:
            raise ValueError("neither bootstrap nor http is given: name a broker, such as '127.0.0.1:9092'")
        if kafka and bootstrap is None:
            raise ValueError(
                "kafka has settings of Kafka's protocol, and without bootstrap, records are sent over HTTP"
            )
        servers = None if bootstrap is None else ",".join(_several(bootstrap))
        self._kafka = None if servers is None else {**(kafka or {}), BOOTSTRAP: servers}
        self._http = None if http is None else [_url(it) for it in _several(http)]
        self._token = token
        self._timeout_s = milliseconds("timeout", timeout, at_least_ms=1) / 1_000
        self._consumer = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._pid = os.getpid()
        self._lock = Lock()  # threads share the sender and the list of queues
        self._api: ApiClient | None = None
        self._sender: Sender | None = None
        self.timer_topics = TimerTopics(lambda: self.api)
        self._queues: list[AsyncQueue] = []
        self._workers: list[Worker] = []
        self._stopping = asyncio.Event()
        self._turn = asyncio.Lock()  # of the record that waits for room in the sender; the others wait behind it
        self._begun_at = 0.0  # the loop's time when a record last got room
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        """
        Find the brokers, unless `http` names them.

        Raise BrokersUnavailable if no broker answers, and ValueError if librdkafka refuses the settings in `kafka`.
        """
        if self._api is not None:
            return
        addresses = self._http
        if addresses is None:
            assert self._kafka is not None, "checked by __init__"
            addresses = await asyncio.to_thread(http_addresses, self._kafka)
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()  # which belongs to one event loop
        self.timer_topics = TimerTopics(lambda: self.api)  # likewise
        self._api = ApiClient(addresses, self._token, self._timeout_s)

    async def close(self) -> None:
        """
        Release the messages in hand, and wait for the records that are on their way.

        Raise SendFailed if some of them were not written in time.
        """
        with self._lock:
            api, self._api = self._api, None
            sender, self._sender = self._sender, None
        self.timer_topics.close()
        try:
            await asyncio.gather(*(it.close() for it in self._queues))
            self._queues.clear()
            if sender is not None:
                await asyncio.to_thread(sender.close)
        finally:
            if api is not None:
                await api.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(
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
        JSON.  Records with equal keys are in one partition, in their order.  Send many records with `asyncio.gather`:
        they travel together.  Raise SendFailed, or TypeError for a value that JSON cannot represent.

        While too many records are on their way, those to any topic wait for room, one behind the other.  A record with
        `delay`, `at`, `timer_id` or `schedule` takes its place among them when a broker has said that the topic is a
        timer topic, unless one was asked in the last ten seconds.  A record to that topic whose headers say the same,
        written by hand, waits behind those that wait for this; records without these do not.

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
        record = new_record(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
            due=Due(delay, at, timer_id, schedule, timezone, missed),
        )
        sender = self.sender()
        if record.needs_timer_topic:
            await self.timer_topics.check(topic)
        elif record.headers and any(name in TIMER_HEADERS for name, _ in record.headers):  # written by hand
            await self.timer_topics.turn(topic)
        problem = sender.problem(record)
        if problem is not None and await self.timer_topics.is_timer(topic):
            raise not_written(record, problem)
        return await asyncio.wrap_future(await self._begun(sender, record))

    async def _begun(self, sender: Sender, record: NewRecord) -> "Future[Sent]":
        """Begin to send a record when the sender has room, in the order of the callers.  Raise SendFailed."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        async with self._turn:
            while True:
                try:
                    sent = sender.begin(record)
                except BufferError:
                    if loop.time() - max(asked_at, self._begun_at) > BUFFER_S_MAX:
                        raise no_room(record) from None
                    await asyncio.sleep(HEADROOM_S)
                except ValueError as closed:
                    raise not_written(record, str(closed)) from closed
                else:
                    self._begun_at = loop.time()
                    return sent

    def sender(self) -> Sender:
        """Return what sends records, which is created at the first use."""
        check_process(self._pid)
        with self._lock:
            if self._sender is None:
                api = self.api
                assert self._loop is not None, "set together with the API"
                if self._kafka is None:
                    self._sender = HttpSender(api, self._loop, self._timeout_s)
                else:
                    self._sender = KafkaSender(self._kafka, self._timeout_s)
            return self._sender

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
    ) -> AsyncQueue:
        """
        Return the messages of a topic that a share group delivers; `async for` iterates over them.

        Args:
            lease: How long a message stays with a consumer that does not renew it, for example because it was killed;
                by default as the group says (`group.share.record.lock.duration.ms`).
            prefetch: How many messages are received at once, 1 to 500.  Those that wait are leased, too.
            partition: Receive from this partition only.
            idle: End the iteration when no message has come for so long.
            consumer: The name of the consumer, as `tidemill queue` shows it.
        """
        queue = AsyncQueue(
            self.api,
            topic,
            group,
            consumer=consumer or self._consumer,
            lease=lease,
            prefetch=prefetch,
            partition=partition,
            idle=idle,
        )
        with self._lock:
            self._queues = [*(it for it in self._queues if not it.is_closed), queue]
        return queue

    def timers(self, topic: str) -> AsyncTimers:
        """Return the records that wait in a timer topic, to list, cancel and reschedule them."""
        return AsyncTimers(self.api, topic)

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
        message is delivered again.  The handler may also acknowledge, release or reject the message itself.  A handler
        that is not a coroutine function is called in a thread.

        Args:
            group: The share group; its workers, in all processes, share the messages.
            concurrency: How many messages are handled at the same time, 1 to 500.
            backoff: The delay before a failed message is delivered again, such as `tidemill.exponential("1s",
                max="5m")`; by default as the group says (`tidemill.share.backoff`).
            attempts: After so many deliveries the message is set aside.  This sets `share.delivery.count.limit` of a
                group that has none; `run` refuses a group that has another one.  Workers of a group share the value.
            lease: As in `queue`.
            grace: How long a stop waits for handlers that run; their messages are then released.
        """

        def register(handler: AnyHandler) -> AnyHandler:
            worker = Worker(
                lambda: self.api,
                lambda: self.queue(topic, group, lease=lease),
                handler,
                topic=topic,
                group=group,
                concurrency=concurrency,
                backoff=backoff,
                attempts=attempts,
                grace_s=milliseconds("grace", grace) / 1_000,
            )
            worker.check_attempts(self._workers)
            self._workers.append(worker)
            return handler

        return register

    async def run(self) -> None:
        """
        Run the workers until `stop` is called, or the process gets SIGINT or SIGTERM.

        They then finish the messages that they have begun.  A second signal ends the process at once.
        """
        loop = asyncio.get_running_loop()
        with stopped_by_signals(lambda: loop.call_soon_threadsafe(self.stop)):
            await self.run_workers()

    async def run_workers(self) -> None:
        """Run the workers until `stop` is called.  If one fails, stop the others, and raise its exception."""
        if not self._workers:
            raise ValueError("there is no worker: decorate a function with @mill.worker(topic, group=…)")
        await self.open()  # may take seconds, in which a signal stops what has not begun
        running = [asyncio.create_task(worker.run(self._stopping)) for worker in self._workers]
        try:
            await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            if self._stopping.is_set():  # a second signal: wait for no handler
                for task in running:
                    task.cancel()
            raise
        finally:
            self.stop()
            await asyncio.wait(running)
            self._stopping = asyncio.Event()  # of the next run, which may have another event loop
        for task in running:
            task.result()

    def stop(self) -> None:
        """
        Stop the workers, which finish the messages that they have begun; before a run, it ends as soon as it begins.
        Call it in the event loop.
        """
        self._stopping.set()

    @property
    def api(self) -> ApiClient:
        """The HTTP API of the cluster.  Raise ValueError before the client is connected."""
        if self._api is None:
            raise ValueError("the client is not connected: use it in `async with`, or call open()")
        return self._api


def _several(value: str | Iterable[str]) -> list[str]:
    found = [it.strip() for it in (value.split(",") if isinstance(value, str) else value)]
    if not all(found):
        raise ValueError(f"{value!r}: name one or several addresses, such as '127.0.0.1:9092'")
    return found


def _url(address: str) -> str:
    return address if "://" in address else f"http://{address}"


def no_room(record: NewRecord) -> SendFailed:
    return not_written(record, "too many others wait to be sent")


def connect_async(
    bootstrap: str | Sequence[str] | None = None,
    *,
    http: str | Sequence[str] | None = None,
    token: str | None = None,
    kafka: Mapping[str, object] | None = None,
    timeout: Duration = "30s",
) -> AsyncMill:
    """
    Return a client for asyncio, which connects in `async with`.  `connect` describes the arguments.
    """
    return AsyncMill(bootstrap, http=http, token=token, kafka=kafka, timeout=timeout)
