"""Gives up requests to a broker that has become silent.

The connections of a broker that is frozen stay open, so a request to it could keep its client waiting for longer than
that waits.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

GONE_S_MAX: Final = 3.0  # of a broker that is not up, before its requests are given up: others lead meanwhile
CHECK_S: Final = 0.25


def ended_by_silence(
    limit: asyncio.Timeout, is_up: Callable[[], bool], gone_s: float | None = None
) -> AbstractContextManager[None]:
    """
    Let `limit` expire when the broker has not been up for `gone_s` (GONE_S_MAX).  `is_up` says whether its heartbeats
    arrive.
    """
    return ended_after(limit, GONE_S_MAX if gone_s is None else gone_s, lambda: not is_up())


@contextmanager
def ended_after(limit: asyncio.Timeout, seconds: float, is_true: Callable[[], bool]) -> Iterator[None]:
    """Let `limit` expire when `is_true` has been true for so many seconds without a break."""
    loop = asyncio.get_running_loop()
    since: float | None = None
    checking: asyncio.TimerHandle

    def check() -> None:
        nonlocal checking, since
        now = loop.time()
        if not is_true():
            since = None
        elif since is None:
            since = now
        if since is not None and now - since >= seconds and not limit.expired():
            limit.reschedule(now)
        checking = loop.call_later(CHECK_S, check)

    checking = loop.call_later(CHECK_S, check)
    try:
        yield
    finally:
        checking.cancel()
