"""Which topics delay records: those of kind timer, as the brokers say once for each topic."""

import asyncio
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from tidemill.sdk.api_client import ApiClient
from tidemill.sdk.problems import BrokersUnavailable, RequestRefused, SendFailed

NEW_TOPIC_S_MAX: Final = 2.0  # a broker may hear of a new topic a moment later than the one that has created it
PAUSE_S: Final = 0.1


class NoTimerTopic(SendFailed):
    """A record was not written, because its topic is of another kind."""


class TimerTopics:
    def __init__(self, api: Callable[[], ApiClient]) -> None:
        self._api = api
        self._known: set[str] = set()  # a topic keeps its kind; only one that is deleted can get another one
        self._asking: dict[str, asyncio.Future[None]] = {}

    def is_known(self, topic: str) -> bool:
        """Return whether a topic is known to be of kind timer; any thread may ask."""
        return topic in self._known

    async def check(self, topic: str) -> None:
        """
        Raise NoTimerTopic unless a topic is of kind timer, or SendFailed if its kind cannot be known.

        Callers at the same time share a request.
        """
        if topic in self._known:
            return
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.ensure_future(self._ask(topic))
            asking.add_done_callback(lambda _: self._asking.pop(topic, None))
        await asyncio.shield(asking)  # a caller that is cancelled does not end the others

    async def _ask(self, topic: str) -> None:
        try:
            described = await self._described(topic)
        except (RequestRefused, BrokersUnavailable) as problem:
            is_missing = isinstance(problem, RequestRefused) and problem.status == 404
            fix = " and tidemill.kind=timer" if is_missing else ""
            raise SendFailed(f"a record was not written to topic {topic}: {problem}{fix}") from problem
        kind = described.get("kind", "log")
        if kind != "timer":
            raise NoTimerTopic(
                f"a record was not written to topic {topic}: the topic is of kind {kind}, which has neither delays nor "
                "timers; leave out delay, at, timer_id and schedule, or create the topic with tidemill.kind=timer"
            )
        self._known.add(topic)

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
