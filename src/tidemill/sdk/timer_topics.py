"""Which topics delay records: those of kind timer, as the brokers say for each topic from time to time."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, Final
from urllib.parse import quote

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
        # and at which this was found instead; None: `is_timer` has waited long enough, but `check` may wait longer
        self._refused: dict[str, tuple[float, SendFailed | None]] = {}
        self._turns: dict[str, asyncio.Lock] = {}

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

        Callers at the same time share a request, and go on in their order: none that comes later passes them.
        """
        asked_at = monotonic()
        async with self._turns.setdefault(topic, asyncio.Lock()):
            if self.is_known(topic) or self._known.get(topic, 0.0) > asked_at:
                return
            refused_at, problem = self._refused.get(topic, (0.0, None))
            if problem is not None and refused_at > asked_at:
                raise problem
            try:
                await self._ask(topic)
            except SendFailed as refused:
                self._refused[topic] = monotonic(), refused
                raise

    async def turn(self, topic: str) -> None:
        """Wait behind the callers of `check`, and ask nothing."""
        async with self._turns.setdefault(topic, asyncio.Lock()):
            pass

    async def _ask(self, topic: str) -> None:
        try:
            described = await self._described(topic)
        except (RequestRefused, BrokersUnavailable) as problem:
            if isinstance(problem, BrokersUnavailable) and topic in self._known:
                self._known[topic] = monotonic()  # records need the API less than a check of what was right so far
                return
            is_missing = isinstance(problem, RequestRefused) and problem.status == 404
            fix = " and tidemill.kind=timer" if is_missing else ""
            raise SendFailed(f"a record was not written to topic {topic}: {problem}{fix}") from problem
        self._known.pop(topic, None)
        kind = described.get("kind", "log")
        if kind != "timer":
            raise NoTimerTopic(
                f"a record was not written to topic {topic}: the topic is of kind {kind}, which has neither delays nor "
                "timers; leave out delay, at, timer_id and schedule, or create the topic with tidemill.kind=timer"
            )
        self._known[topic] = monotonic()

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


def _is_recent(asked_at: float | None) -> bool:
    return asked_at is not None and monotonic() - asked_at <= KNOWN_S_MAX
