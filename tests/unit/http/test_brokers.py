"""Responses that arrive when the HTTP client no longer waits for them."""

import asyncio

import pytest

from tidemill.http.v1.brokers import result_of
from tidemill.shard.pending import Pending


class Waiting(Pending[str]):
    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


@pytest.mark.parametrize("has_arrived", [False, True])
def test_a_response_that_has_just_arrived_is_not_lost(has_arrived: bool) -> None:
    """
    The request is cancelled after the response has come and before it is taken: its records are locked, and have
    to be undone.
    """
    pending, unwanted = Waiting(), list[str]()

    async def run() -> None:
        asking = asyncio.ensure_future(result_of(pending, unwanted.append))
        await asyncio.sleep(0)
        if has_arrived:
            pending.complete("records")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(run())

    assert ((["records"] if has_arrived else []), True) == (unwanted, pending.is_cancelled)


def test_a_response_in_time_is_returned() -> None:
    pending, unwanted = Waiting(), list[str]()

    async def run() -> str:
        asking = asyncio.ensure_future(result_of(pending, unwanted.append))
        await asyncio.sleep(0)
        pending.complete("records")
        return str(await asking)

    assert "records" == asyncio.run(run())
    assert not unwanted and not pending.is_cancelled


def test_a_response_that_comes_between_the_cancellation_and_its_effect_is_not_lost() -> None:
    """A task that is cancelled runs a moment later, and only then cancels what it waits for."""
    pending, unwanted = Waiting(), list[str]()

    async def run() -> None:
        asking = asyncio.ensure_future(result_of(pending, unwanted.append))
        await asyncio.sleep(0)
        asking.cancel()
        pending.complete("records")
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(run())

    assert ["records"] == unwanted
