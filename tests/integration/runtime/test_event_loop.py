"""The event loop and its signals."""

import asyncio
import os
import signal

import pytest
import uvloop

from tidemill.runtime import event_loop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_call_stop(number: signal.Signals) -> None:
    """Each SIGINT or SIGTERM calls `stop` on the loop; the main coroutine decides when it ends."""
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


def test_the_signal_handlers_are_restored() -> None:
    """After the run, Python handles Ctrl-C as before."""

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        pass

    before = signal.getsignal(signal.SIGINT)
    event_loop.run(main, stop=lambda: None)

    assert signal.getsignal(signal.SIGINT) is before


def test_exceptions_of_main_propagate() -> None:
    """An exception in the main coroutine propagates, so that a failed start ends the process and shows the reason."""

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        event_loop.run(main, stop=lambda: None)
