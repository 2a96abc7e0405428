"""The messages of a topic that a share group delivers, for asyncio."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

from tidemill.sdk.api_client import ApiClient
from tidemill.sdk.durations import Duration, milliseconds
from tidemill.sdk.leases import Leases
from tidemill.sdk.message import AsyncMessage, Delivered, message_of
from tidemill.sdk.problems import BrokersUnavailable

MESSAGES_MAX: Final = 500  # in a request
TURN_MS: Final = 20_000  # of a request that waits for messages
log = logging.getLogger("tidemill.queue")


class AsyncQueue:
    """
    An asynchronous iterator over messages.

    Each message is the consumer's alone until it is finished; its lease is renewed in the background.  `close` releases
    the messages that are not finished.
    """

    def __init__(
        self,
        api: ApiClient,
        topic: str,
        group: str,
        *,
        consumer: str,
        lease: Duration | None = None,
        prefetch: int = 1,
        partition: int | None = None,
        idle: Duration | None = None,
    ) -> None:
        if not 1 <= prefetch <= MESSAGES_MAX:
            raise ValueError(f"prefetch={prefetch}: use 1 to {MESSAGES_MAX}")
        self.topic = topic
        self.group = group
        self._api = api
        self._path = f"/v1/queues/{quote(topic, safe='')}/{quote(group, safe='')}"
        self._leases = Leases(api, self._path)
        self._prefetch = prefetch
        self._idle_ms = None if idle is None else milliseconds("idle", idle)
        self._received: deque[AsyncMessage] = deque()
        self._is_closed = False
        self._fields: dict[str, object] = {"consumer": consumer}
        if lease is not None:
            self._fields["lease_ms"] = milliseconds("lease", lease, at_least_ms=1)
        if partition is not None:
            self._fields["partition"] = partition

    async def receive(self, max: int = 1, *, wait: Duration = "20s") -> list[AsyncMessage]:
        """
        Return up to `max` messages, 1 to 500, as soon as there are any, or none after `wait`.

        Raise RequestRefused, or BrokersUnavailable if no broker answers.
        """
        if not 1 <= max <= MESSAGES_MAX:
            raise ValueError(f"max={max}: use 1 to {MESSAGES_MAX}")
        if self._is_closed:
            raise ValueError(f"the queue of topic {self.topic} and group {self.group} is closed")
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + milliseconds("wait", wait) / 1_000
        while True:
            wait_ms = round((ends_at - loop.time()) * 1_000)
            wait_ms = min(wait_ms, TURN_MS) if wait_ms > 0 else 0
            body = {**self._fields, "max": max, "wait_ms": wait_ms}
            response = await self._api.call("POST", f"{self._path}/receive", body, wait_s=wait_ms / 1_000)
            messages = [message_of(self.topic, it, self._leases) for it in response["messages"]]
            if self._is_closed:  # by another task, while this one waited
                await self._leases.release_all([it.lease for it in messages])
                return []
            if messages or loop.time() >= ends_at:
                return messages

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncMessage:
        """
        Return the next message, and wait for it.

        The iteration ends when the queue is closed, or when no message came for its `idle` time.  While no broker
        answers, it goes on, and logs a warning.
        """
        loop = asyncio.get_running_loop()
        ends_at = None if self._idle_ms is None else loop.time() + self._idle_ms / 1_000
        while not self._is_closed:
            while self._received:
                message = self._received.popleft()
                if not message.is_lost:  # while it waited here
                    return message
            left_s = TURN_MS / 1_000 if ends_at is None else max(ends_at - loop.time(), 0.0)
            try:
                self._received.extend(await self.receive(self._prefetch, wait=left_s))
            except BrokersUnavailable as problem:
                log.warning("no message can be received now: %s", problem)
            if not self._received and ends_at is not None and loop.time() >= ends_at:
                break
        raise StopAsyncIteration

    async def ack(self, messages: Iterable[Delivered]) -> None:
        """Finish messages together.  Raise the first problem that one of them has, after all have been sent."""
        outcomes = await asyncio.gather(*(it.decide("ack") for it in messages), return_exceptions=True)
        for problem in outcomes:
            if problem is not None:
                raise problem

    async def describe(self) -> dict[str, Any]:
        """Return the partitions of the queue with their counts, as `GET /v1/queues/{topic}/{group}` does."""
        found: dict[str, Any] = await self._api.call("GET", self._path)
        return found

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def close(self) -> None:
        """Release the messages that are not finished, and end the iteration."""
        if not self._is_closed:
            self._is_closed = True
            unbegun = [it.lease for it in self._received]
            self._received.clear()
            await self._leases.release_all(unbegun)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
