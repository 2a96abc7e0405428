"""Which topics delay records: those of kind timer, as the brokers say for each topic from time to time."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import Any, Final
from urllib.parse import quote
from weakref import WeakValueDictionary

from tidemill.sdk.api_client import ApiClient
from tidemill.sdk.problems import BrokersUnavailable, RequestRefused, SendFailed

NEW_TOPIC_S_MAX: Final = 2.0  # a broker may hear of a new topic a moment later than the one that has created it
PAUSE_S: Final = 0.1
KNOWN_S_MAX: Final = 10.0  # a topic keeps its kind, but it may be deleted, and created again with another one
HEADER_S_MAX: Final = 2.0  # how long a record waits only because its headers are not those of a timer topic


class NoTimerTopic(SendFailed):
    """A record was not written, because its topic is of another kind."""


class TimerTopics:
    def __init__(self, api: Callable[[], ApiClient]) -> None:
        self._api = api
        self._known: dict[str, float] = {}  # monotonic seconds at which brokers said that a topic is of kind timer
        # monotonic seconds at which brokers said that a topic is of another kind, or did not answer, and the failure
        # of records with a delay: None if only `is_timer` has given up, which does not wait as long as `check`
        self._refused: dict[str, tuple[float, SendFailed | None]] = {}
        self._turns = WeakValueDictionary[str, asyncio.Lock]()  # those that callers hold or wait for
        self._requests: dict[str, asyncio.Task[SendFailed | None]] = {}

    def close(self) -> None:
        """End the requests that are under way; those that wait for them get SendFailed."""
        for it in self._requests.values():
            it.cancel()

    def is_known(self, topic: str) -> bool:
        """Return whether brokers have said lately that a topic is of kind timer; any thread may ask."""
        return _is_recent(self._known.get(topic))

    def is_other(self, topic: str) -> bool:
        """Return whether brokers were asked for the kind of a topic lately, and in vain; any thread may ask."""
        refused_at, _ = self._refused.get(topic, (None, None))
        return _is_recent(refused_at) and not self.is_known(topic)

    async def is_timer(self, topic: str) -> bool:
        """
        Return whether brokers say that a topic is of kind timer; False, too, if none of them answers soon.

        Brokers are not asked again for a while after that, so a timer topic that is created meanwhile is not known as
        one.  They refuse its bad records themselves, with their batches.
        """
        if self.is_other(topic):
            return False
        try:
            await asyncio.wait_for(self.check(topic), HEADER_S_MAX)
        except SendFailed:
            return False
        except TimeoutError:
            if topic not in self._known:
                self._refused[topic] = monotonic(), None
            return topic in self._known
        return True

    async def check(self, topic: str) -> None:
        """
        Raise NoTimerTopic unless a topic is of kind timer, or SendFailed if its kind cannot be known.

        Callers at the same time share a request, which goes on when one of them is cancelled.  They go on in their
        order: none that comes later passes them.
        """
        asked_at = monotonic()
        async with self._turns.setdefault(topic, asyncio.Lock()):
            if self.is_known(topic):
                return
            refused_at, problem = self._refused.get(topic, (0.0, None))
            if problem is None or refused_at <= asked_at:
                request = self._request(topic)
                await asyncio.wait([request])  # `shield` would end this caller, too, when `close` cancels the request
                problem = self._refused[topic][1] if request.cancelled() else request.result()
            if problem is not None:
                # one for each caller: an exception collects its tracebacks
                raise type(problem)(*problem.args) from problem.__cause__

    async def turn(self, topic: str) -> None:
        """
        Wait behind the callers of `check`, if there are some, and ask nothing.

        This takes as long as their `check`: until a broker answers, or none has done so for the client's timeout.
        """
        async with self._turns.setdefault(topic, asyncio.Lock()):
            pass

    def _request(self, topic: str) -> "asyncio.Task[SendFailed | None]":
        """Return the request for the kind of a topic, which is under way, or begins now."""
        if topic not in self._requests:
            self._requests[topic] = asyncio.create_task(self._ask(topic))
            self._requests[topic].add_done_callback(partial(self._ended, topic))
        return self._requests[topic]

    def _ended(self, topic: str, request: "asyncio.Task[SendFailed | None]") -> None:
        del self._requests[topic]
        if request.cancelled():  # perhaps before it began
            closed = SendFailed(f"a record was not written to topic {topic}: the client was closed meanwhile")
            self._refused[topic] = monotonic(), closed

    async def _ask(self, topic: str) -> SendFailed | None:
        """Take note of what brokers say about a topic, and return why records for timers are not written to it."""
        problem: SendFailed | None = None
        try:
            problem = _problem(topic, await self._described(topic))
        except RequestRefused as refused:
            fix = " and tidemill.kind=timer" if refused.status == 404 else ""
            problem = _failed(topic, refused, fix)
        except BrokersUnavailable as failed:
            if topic not in self._known:  # records need the API less than a check of what was right so far
                problem = _failed(topic, failed)
        if problem is None:
            self._known[topic] = monotonic()
        else:
            self._known.pop(topic, None)
            self._refused[topic] = monotonic(), problem
        return problem

    async def _described(self, topic: str) -> Any:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + NEW_TOPIC_S_MAX
        while True:
            try:
                return await self._api().call("GET", f"/v1/topics/{quote(topic, safe='')}")
            except RequestRefused as refused:
                if refused.status != 404 or loop.time() > ends_at:
                    raise
            await asyncio.sleep(PAUSE_S)


def _problem(topic: str, described: Mapping[str, Any]) -> NoTimerTopic | None:
    """Return why a topic has no timers, if brokers describe it so."""
    kind = described.get("kind", "log")
    if kind == "timer":
        return None
    return NoTimerTopic(
        f"a record was not written to topic {topic}: the topic is of kind {kind}, which has neither delays nor timers; "
        "leave out delay, at, timer_id and schedule, or create the topic with tidemill.kind=timer"
    )


def _failed(topic: str, cause: Exception, fix: str = "") -> SendFailed:
    failed = SendFailed(f"a record was not written to topic {topic}: {cause}{fix}")
    failed.__cause__ = cause.with_traceback(None)  # the client keeps both, which need no frames of a request
    return failed


def _is_recent(asked_at: float | None) -> bool:
    return asked_at is not None and monotonic() - asked_at <= KNOWN_S_MAX
