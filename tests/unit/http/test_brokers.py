"""Requests to other brokers: those that become silent, and responses that come too late."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.http.v1 import silence
from tidemill.http.v1.brokers import Brokers, Unreachable, result_of
from tidemill.model.topic import TopicId
from tidemill.peer import share_receive
from tidemill.shard.pending import Pending

REQUEST = share_receive.Request(
    group_id="g",
    topic_id=TopicId(bytes(16)),
    partition=0,
    member_id="c",
    max_records=1,
    max_bytes=1,
    max_wait_ms=0,
    lease=1,
    lock_ms=1,
)


class PeerStub:
    """Stands for broker 1, with one peer, broker 2, which gets requests and answers them when it is told to."""

    broker_id = 1

    def __init__(self) -> None:
        self.is_up = True
        self.answered: Callable[[Any], None]
        self.image = SimpleNamespace(brokers={2: SimpleNamespace(voter="key")})
        self.cluster = SimpleNamespace(peers=self, is_up=lambda _: self.is_up)

    def ask(self, _: object, __: object, ___: object, answered: Callable[[Any], None]) -> bool:
        self.answered = answered
        return True


@pytest.mark.parametrize(("gone_s", "least_s"), [(None, 0.2), (0.0, 0.0)])
def test_a_request_to_a_peer_that_becomes_silent_is_given_up(
    monkeypatch: pytest.MonkeyPatch, gone_s: float | None, least_s: float
) -> None:
    """Its client would wait until the link is closed, twice as long.  What the peer answers later is not wanted."""
    monkeypatch.setattr(silence, "GONE_S_MAX", 0.2)
    monkeypatch.setattr(silence, "CHECK_S", 0.01)
    stub, unwanted = PeerStub(), list[Any]()

    async def run() -> tuple[Unreachable, float]:
        loop = asyncio.get_running_loop()
        brokers: Any = Brokers(stub)  # type: ignore[arg-type]
        asking = asyncio.ensure_future(brokers.ask(2, share_receive.API, REQUEST, unwanted.append, gone_s=gone_s))
        await asyncio.sleep(0.05)
        assert not asking.done(), "it is slow, but heard"
        stub.is_up, silent_since = False, loop.time()
        with pytest.raises(Unreachable, match="neither a response nor a heartbeat") as lost:
            await asyncio.wait_for(asking, 5)
        return lost.value, loop.time() - silent_since

    lost, took_s = asyncio.run(run())
    late = share_receive.Response(lock_ms=1, acquired=[], records=[], term=1)
    stub.answered(late)

    assert lost.is_sent
    assert least_s <= took_s < 2
    assert [late] == unwanted


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
