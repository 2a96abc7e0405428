"""The rule for requests to a leader or a coordinator that moves: ask again for a while, then refuse with 503."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tidemill.http.v1.calls import Refused

T = TypeVar("T")

RETRY_S_MAX: Final = 10.0  # longer than most elections
PAUSE_S: Final = 0.1


async def retried(attempt: Callable[[], Awaitable[T | None]], refusal: Callable[[], Refused]) -> T:
    """
    Return what `attempt` returns, which is called again as long as it returns None.  Raise `refusal()` when it still
    does a while after the first time: that may have waited for a broker that is frozen.
    """
    loop = asyncio.get_running_loop()
    until: float | None = None
    while True:
        found = await attempt()
        if found is not None:
            return found
        until = loop.time() + RETRY_S_MAX if until is None else until
        if loop.time() >= until:
            raise refusal()
        await asyncio.sleep(PAUSE_S)
