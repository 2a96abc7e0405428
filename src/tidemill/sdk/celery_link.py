"""What Celery's transport asks of a cluster: topics, queues, and topics that all workers read.

Each task queue of Celery is a topic, which the workers share as a queue.  What goes to all workers, such as remote
control, is written to a topic with one partition, which each of them reads from the end on, without a group.

Where the topics of queues are timer topics, a task with a countdown or an ETA waits in its topic.  A worker gets it
when it is due, without the ETA: a worker hands a task with one to its timer, which looks at it up to a second later,
even if the ETA has passed.  A task that has not waited there, such as a dead letter that was sent back, keeps its ETA.
On other topics, a worker gets the task at once, and holds it until its ETA.
"""

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from tidemill.sdk.async_mill import AsyncMill
from tidemill.sdk.async_queue import AsyncQueue
from tidemill.sdk.loop_thread import LoopThread
from tidemill.sdk.message import AsyncMessage
from tidemill.sdk.problems import RequestRefused, TidemillError
from tidemill.sdk.timer_topics import NoTimerTopic

LOG: Final = "log"
TIMER: Final = "timer"
WAIT_MS: Final = 20_000
EXCHANGE_CONFIGS: Final = {"retention.ms": "3600000"}  # nothing older is read
PAGE: Final = 100
LEASE_S_MAX: Final = 30.0  # no broker may set group.share.max.record.lock.duration.ms to less
_OTHERS: Final = re.compile(r"[^A-Za-z0-9._-]")
_NAME_LENGTH_MAX: Final = 240


def eta_of(message: Mapping[str, Any]) -> datetime | None:
    """Return when a task may run; None for one that has no ETA, or one that is no time, which a worker refuses."""
    headers = message.get("headers")
    eta = headers.get("eta") if isinstance(headers, dict) else None
    try:
        found = datetime.fromisoformat(eta) if isinstance(eta, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found  # as workers read it


def topic_name(name: str) -> str:
    """Return the topic of a queue or exchange, whose names may have characters that those of topics may not."""
    return _OTHERS.sub("-", name)[:_NAME_LENGTH_MAX]


class CeleryLink:
    """A connection, with an event loop in a thread of its own."""

    def __init__(
        self,
        address: str,
        token: str | None,
        group: str,
        lease_s: float | None,
        partitions: int | None,
        kind: str = LOG,
        *,
        timeout_s: float,
    ) -> None:
        """
        Connect to the cluster of the broker at an HTTP address.  `kind` is that of the queues' topics.

        Raise ValueError for an unknown kind, BrokersUnavailable or RequestRefused.
        """
        if kind not in (LOG, TIMER):
            raise ValueError(f"kind={kind!r} in broker_transport_options: use {TIMER!r}, or leave it out")
        self._kind = kind
        self._mill = AsyncMill(http=address, token=token, timeout=timeout_s)
        self._group = group
        self._lease_s = None if lease_s is None else min(lease_s, LEASE_S_MAX)
        self._partitions = partitions
        self._queues: dict[str, AsyncQueue] = {}
        self._known: set[str] = set()  # topics that exist
        self._loop = LoopThread()
        try:
            self._loop.call(self._open())
        except BaseException:
            self._loop.close()
            raise

    async def _open(self) -> None:
        await self._mill.open()
        brokers = (await self._call("GET", "/v1/brokers"))["brokers"]
        endpoints = [it for broker in brokers for it in broker["endpoints"] if it["name"] == "HTTP"]
        self._mill.api.add_addresses(f"http://{it['host']}:{it['port']}" for it in endpoints)
        path = f"/v1/groups/{quote(self._group, safe='')}"
        try:
            configs = (await self._call("GET", path))["configs"]
        except RequestRefused as refused:
            if refused.status != 404:
                raise
            configs = refused.fields.get("configs") or {}  # they may be set before the group exists
        if "share.auto.offset.reset" not in configs:  # tasks may be sent before the first worker starts
            await self._call("PATCH", path, {"configs": {"share.auto.offset.reset": "earliest"}})

    def close(self) -> None:
        """Release the messages that are not finished."""
        try:
            self._loop.call(self._mill.close())
        finally:
            self._loop.close()

    # Task queues.

    def declare(self, queue: str) -> None:
        """Create the topic of a queue, if it does not exist.  Raise ValueError if it is of another kind."""
        self._loop.call(self._create(topic_name(queue), self._partitions, {}, self._kind))

    def send_task(self, queue: str, message: Mapping[str, Any]) -> None:
        """Write a task to the topic of a queue.  On a timer topic, it is delivered when its ETA has come."""
        at = eta_of(message) if self._kind == TIMER else None
        self._loop.call(self._mill.send(topic_name(queue), json.dumps(message), at=at))

    def receive(self, queue: str, count: int, *, wait_s: float = WAIT_MS / 1_000) -> "Future[list[AsyncMessage]]":
        return self._loop.begin(self._receive(queue, count, wait_s))

    async def _receive(self, queue: str, count: int, wait_s: float) -> list[AsyncMessage]:
        return await self._queue(queue).receive(count, wait=wait_s)

    def _queue(self, queue: str) -> AsyncQueue:
        found = self._queues.get(queue)
        if found is None:
            found = self._mill.queue(topic_name(queue), self._group, lease=self._lease_s)
            self._queues[queue] = found
        return found

    def decide(self, message: AsyncMessage, decision: Any) -> "Future[None]":
        """Begin to acknowledge, release or reject a message; released ones are delivered again at once."""
        return self._loop.begin(self._decide(message, decision))

    async def _decide(self, message: AsyncMessage, decision: Any) -> None:
        try:
            await message.decide(decision, 0 if decision == "nack" else None)
        except TidemillError:
            message.abandon()
            raise

    def available(self, queue: str) -> int:
        """Return how many messages wait in a queue."""
        try:
            found = self._loop.call(self._described(queue))
        except RequestRefused as refused:
            if refused.status == 404:
                return 0
            raise
        return sum(it["available"] + it["delayed"] for it in found["partitions"])

    async def _described(self, queue: str) -> Any:
        return await self._queue(queue).describe()

    def purge(self, queue: str) -> int:
        """Acknowledge all messages that are available, and return how many."""
        return self._loop.call(self._purge(queue))

    async def _purge(self, queue: str) -> int:
        purged = 0
        while messages := await self._queue(queue).receive(500, wait=0):
            await self._queue(queue).ack(messages)
            purged += len(messages)
        return purged

    # Topics that all workers read.

    def declare_exchange(self, topic: str) -> None:
        """Create a topic that all workers read, if it does not exist."""
        self._loop.call(self._create(topic, 1, EXCHANGE_CONFIGS))

    def send(self, topic: str, message: Mapping[str, Any]) -> None:
        self._loop.call(self._mill.send(topic, json.dumps(message)))

    def end_of(self, topic: str) -> int:
        return int(self._loop.call(self._call("GET", f"{_records(topic)}?limit=1"))["end"])

    def read(self, topic: str, offset: int) -> "Future[tuple[Sequence[Any], int]]":
        """Return values of records from an offset on, as soon as there are any, and the offset behind them."""
        return self._loop.begin(self._read(topic, offset))

    async def _read(self, topic: str, offset: int) -> tuple[Sequence[Any], int]:
        path = f"{_records(topic)}?offset={offset}&limit={PAGE}&wait_ms={WAIT_MS}"
        try:
            found = await self._call("GET", path, wait_s=WAIT_MS / 1_000)
        except RequestRefused as refused:
            if refused.status != 410:
                raise
            return [], int(refused.fields["log_start"])  # type: ignore[call-overload]
        return [it["value"] for it in found["records"]], found["next_offset"]

    async def _create(
        self, topic: str, partitions: int | None, configs: Mapping[str, str], kind: str | None = None
    ) -> None:
        if topic in self._known:
            return
        body: dict[str, object] = {"name": topic, "configs": configs}
        if partitions is not None:
            body["partitions"] = partitions
        if kind == TIMER:
            body["kind"] = kind
        try:
            await self._call("POST", "/v1/topics", body)
        except RequestRefused as refused:
            if refused.status != 409:  # it exists
                raise
            if kind == TIMER:
                await self._check_is_timer(topic)
        self._known.add(topic)

    async def _check_is_timer(self, topic: str) -> None:
        try:
            await self._mill.timer_topics.check(topic)
        except NoTimerTopic as problem:
            raise ValueError(
                f"kind={TIMER!r} in broker_transport_options: the topic {topic} of a queue exists and is of another "
                "kind, which it keeps.  Let the workers empty the queue and delete the topic, or use another queue "
                "(task_default_queue), or leave kind out"
            ) from problem

    async def _call(self, method: str, path: str, body: Mapping[str, object] | None = None, **more: Any) -> Any:
        return await self._mill.api.call(method, path, body, **more)


def _records(topic: str) -> str:
    return f"/v1/topics/{quote(topic, safe='')}/partitions/0/records"
