"""The loop and its signals."""

import asyncio
import os
import signal

import pytest
import uvloop

from tidemill.runtime import event_loop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_to_stop(number: signal.Signals) -> None:
    """
    SIGINT and SIGTERM are a call on the loop, each time; the main coroutine ends when it likes.
    """
    heard = asyncio.Event()

    async def main(loop: asyncio.AbstractEventLoop) -> str:
        assert isinstance(loop, uvloop.Loop)
        async with asyncio.timeout(5):
            for _ in range(2):
                os.kill(os.getpid(), number)
                await heard.wait()
                heard.clear()
        return "ended in order"

    ended = event_loop.run(main, stop=heard.set)

    assert ended == "ended in order"


def test_the_signals_are_given_back() -> None:
    """
    After the run Ctrl-C is Python's again.
    """

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        pass

    before = signal.getsignal(signal.SIGINT)
    event_loop.run(main, stop=lambda: None)

    assert signal.getsignal(signal.SIGINT) is before


def test_what_main_raises_comes_out() -> None:
    """
    A start that fails ends the process with its reason.
    """

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        event_loop.run(main, stop=lambda: None)
