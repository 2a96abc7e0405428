"""A worker: calls a handler with each message of a queue, several at the same time.

receive ─▶ handler ─▶ returns: ack
                  └─▶ raises: logged with its traceback, released after the back-off
stop ─▶ receive nothing more ─▶ wait for the handlers ─▶ release what they have not finished
"""

import asyncio
import inspect
import logging
import random
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final
from urllib.parse import quote

from tidemill.model.back_off import BackOff
from tidemill.sdk.api_client import ApiClient
from tidemill.sdk.async_queue import MESSAGES_MAX, AsyncQueue
from tidemill.sdk.handler_threads import HandlerThreads
from tidemill.sdk.message import AsyncMessage, Message
from tidemill.sdk.problems import BrokersUnavailable, LeaseExpired, RequestRefused, TidemillError

Handler = Callable[[Any], Any]
WAIT: Final = "20s"
PAUSE_S: Final = 1.0  # after no broker has answered
ATTEMPTS: Final = "share.delivery.count.limit"
log = logging.getLogger("tidemill.worker")


class Worker:
    def __init__(
        self,
        api: Callable[[], ApiClient],
        queue: Callable[[], AsyncQueue],
        handler: Handler,
        *,
        topic: str,
        group: str,
        concurrency: int,
        backoff: BackOff | None,
        attempts: int | None,
        grace_s: float,
    ) -> None:
        """Use `api()` and `queue()` when the worker runs.  `Mill.worker` describes the other arguments."""
        if not 1 <= concurrency <= MESSAGES_MAX:
            raise ValueError(f"concurrency={concurrency}: use 1 to {MESSAGES_MAX}")
        if backoff is not None and not isinstance(backoff, BackOff):
            raise TypeError(f"backoff={backoff!r}: use tidemill.constant, linear or exponential, as in constant('1s')")
        self.name = getattr(handler, "__qualname__", repr(handler))
        self._api = api
        self._open_queue = queue
        self._handler = handler
        self._is_async = any(map(inspect.iscoroutinefunction, (handler, getattr(handler, "__call__", None))))  # noqa: B004
        self._topic = topic
        self._group = group
        self._concurrency = concurrency
        self._backoff = backoff
        self._attempts = attempts
        self._grace_s = grace_s

    def check_attempts(self, others: Iterable["Worker"]) -> None:
        """Raise ValueError if one of these workers sets another limit of the same group: the last one would win."""
        for it in others:
            of_group = {it._attempts, self._attempts} - {None} if it._group == self._group else set()
            if len(of_group) > 1:
                raise ValueError(
                    f"attempts={self._attempts}: {it.name}, another worker of group {self._group}, has "
                    f"attempts={it._attempts}; use one value, because a group has one limit"
                )

    async def run(self, stopping: asyncio.Event) -> None:
        """Handle messages until `stopping` is set.  Raise TidemillError if a broker refuses the requests."""
        await self._set_attempts()
        queue, running = self._open_queue(), set[asyncio.Task[None]]()
        threads = HandlerThreads(f"tidemill-{self.name}")
        stopped = asyncio.create_task(stopping.wait())
        try:
            while not stopping.is_set():
                free = self._concurrency - len(running)
                if not free:
                    await asyncio.wait({stopped, *running}, return_when=asyncio.FIRST_COMPLETED)
                    continue
                for message in await self._receive(queue, free, stopped):
                    task = asyncio.create_task(self._handle(message, threads))
                    running.add(task)
                    task.add_done_callback(running.discard)
        finally:
            stopped.cancel()
            log.info("%s stops; messages in hand: %d", self.name, len(running))
            try:
                if running:
                    await asyncio.wait(running, timeout=self._grace_s)
            finally:  # the wait may be cancelled
                if running:
                    log.warning("%s: messages released before their handlers have ended: %d", self.name, len(running))
                    await _cancelled(running)
                threads.close()
                await queue.close()

    async def _receive(self, queue: AsyncQueue, count: int, stopped: "asyncio.Task[Any]") -> list[AsyncMessage]:
        """Return messages, or none if the worker is stopped meanwhile or no broker answers."""
        receiving = asyncio.create_task(queue.receive(count, wait=WAIT))
        try:
            await asyncio.wait({stopped, receiving}, return_when=asyncio.FIRST_COMPLETED)
            return receiving.result() if receiving.done() else []
        except BrokersUnavailable as problem:
            log.warning("%s: no message can be received now: %s", self.name, problem)
            await asyncio.wait({stopped}, timeout=PAUSE_S)
            return []
        finally:
            receiving.cancel()  # the broker notices that the connection is closed, and delivers no message
            await asyncio.wait({receiving})

    async def _handle(self, message: AsyncMessage, threads: HandlerThreads) -> None:
        try:
            problem = await self._call(message, threads)
        except (Exception, SystemExit, asyncio.CancelledError) as raised:  # the handler is the user's code
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the worker stops, and releases the message
            problem = raised
        if problem is None:
            await self._finish(message, "ack", None)
            return
        delay_ms = None if self._backoff is None else self._backoff.delay_ms(message.attempt, random.random)
        after = "the group's back-off" if delay_ms is None else f"{delay_ms / 1_000:g} s"
        what = f"{self.name} failed with {_shown(message)}"
        log.error("%s; released, to be delivered after %s", what, after, exc_info=problem)
        await self._finish(message, "nack", delay_ms)

    async def _call(self, message: AsyncMessage, threads: HandlerThreads) -> BaseException | None:
        """Call the handler, and return the exception that it has raised in its thread."""
        if self._is_async:
            await self._handler(message)
            return None
        loop = asyncio.get_running_loop()
        given = Message(message, lambda work: asyncio.run_coroutine_threadsafe(work, loop).result())
        result, problem = await threads.call(self._handler, given)
        if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
            return TypeError(f"{self.name} returned {result!r}, which has not run: use a function, or `async def`")
        return problem

    async def _finish(self, message: AsyncMessage, decision: Any, delay_ms: int | None) -> None:
        if message.is_lost:
            log.warning("%s: the lease of %s has ended: it is delivered again", self.name, _shown(message))
        elif not message.is_finished:  # the handler may have finished it itself
            try:
                await message.decide(decision, None if delay_ms is None else delay_ms / 1_000)
            except LeaseExpired as problem:
                log.warning("%s: %s of %s: %s", self.name, decision, _shown(message), problem)
            except TidemillError as problem:
                what = f"{self.name}: {decision} of {_shown(message)}"
                log.warning("%s: %s; the message is delivered again when its lease ends", what, problem)
                message.abandon()

    async def _set_attempts(self) -> None:
        """
        Set the group's limit of deliveries where it has none.  Raise ValueError if it has another one, or may not have
        this one.
        """
        if self._attempts is None:
            return
        path = f"/v1/groups/{quote(self._group, safe='')}"
        try:
            configs = (await self._api().call("GET", path))["configs"]
        except RequestRefused as refused:
            if refused.status != 404:
                raise
            configs = refused.fields.get("configs") or {}  # they may be set before the group exists
        limit = configs.get(ATTEMPTS)
        if limit is None:
            try:
                await self._api().call("PATCH", path, {"configs": {ATTEMPTS: str(self._attempts)}})
            except RequestRefused as refused:
                raise ValueError(f"attempts={self._attempts} of group {self._group} is refused: {refused}") from refused
        elif int(limit) != self._attempts:
            raise ValueError(
                f"attempts={self._attempts}: group {self._group} has {ATTEMPTS}={limit}; use that value, or change it: "
                f"tidemill configs set --group {self._group} {ATTEMPTS}={self._attempts}"
            )


async def _cancelled(running: Collection["asyncio.Task[None]"]) -> None:
    """Cancel handlers that are coroutines, and wait no longer for those in threads, which are daemons."""
    for task in running:
        task.cancel()
    await asyncio.wait(running)


def _shown(message: AsyncMessage) -> str:
    return (
        f"the message at offset {message.offset} of partition {message.partition} of topic {message.topic} "
        f"(attempt {message.attempt})"
    )
