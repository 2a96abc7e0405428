"""Gives up requests to a broker that has become silent.

The connections of a broker that is frozen stay open, so a request to it could keep its client waiting for longer than
that waits.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

GONE_S_MAX: Final = 3.0  # of a broker that is not up, before its requests are given up: others lead meanwhile
CHECK_S: Final = 0.25


@contextmanager
def ended_by_silence(limit: asyncio.Timeout, is_up: Callable[[], bool], gone_s: float | None = None) -> Iterator[None]:
    """
    Let `limit` expire when the broker has not been up for `gone_s` (GONE_S_MAX).  `is_up` says whether its heartbeats
    arrive.
    """
    loop = asyncio.get_running_loop()
    gone_s_max = GONE_S_MAX if gone_s is None else gone_s
    gone_since: float | None = None
    checking: asyncio.TimerHandle

    def check() -> None:
        nonlocal checking, gone_since
        now = loop.time()
        if is_up():
            gone_since = None
        elif gone_since is None:
            gone_since = now
        if gone_since is not None and now - gone_since >= gone_s_max and not limit.expired():
            limit.reschedule(now)
        checking = loop.call_later(CHECK_S, check)

    checking = loop.call_later(CHECK_S, check)
    try:
        yield
    finally:
        checking.cancel()
