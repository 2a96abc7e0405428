"""Leases: renewed until each message is finished, decisions combined into few requests."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tidemill.sdk.leases import Leases
from tidemill.sdk.problems import BrokersUnavailable, LeaseExpired, RequestRefused

LEASE_MS = 300


class Api:
    """Answers with the status that `status(action, receipt)` returns."""

    def __init__(self, status: Callable[[str, str], str] = lambda action, receipt: "ok") -> None:
        self.status = status
        self.requests: list[tuple[str, list[str], dict[str, Any]]] = []
        self.response_s: list[float] = []
        self.problem: Exception | None = None
        self.is_slow = False

    async def call(self, method: str, path: str, body: dict[str, Any], *, response_s: float) -> dict[str, Any]:
        self.response_s.append(response_s)
        action = path.rpartition("/")[2]
        receipts = body["receipts"]
        self.requests.append((action, receipts, {name: body[name] for name in body if name != "receipts"}))
        await asyncio.sleep(0.05 if self.is_slow else 0)
        if self.problem is not None:
            raise self.problem
        return {"statuses": [self.status(action, it) for it in receipts]}

    def of(self, action: str) -> list[list[str]]:
        return [receipts for name, receipts, _ in self.requests if name == action]


async def reached(is_reached: Callable[[], bool]) -> None:
    while not is_reached():  # noqa: ASYNC110  (the states of leases have no events)
        await asyncio.sleep(0.01)


def run(api: Api, test: Callable[[Leases], Coroutine[Any, Any, None]]) -> None:
    async def running() -> None:
        leases = Leases(api, "/v1/queues/t/g")  # type: ignore[arg-type]
        try:
            await test(leases)
        finally:
            await leases.release_all()

    asyncio.run(asyncio.wait_for(running(), 20))


def test_a_lease_is_renewed_until_the_message_is_finished() -> None:
    api = Api()

    async def test(leases: Leases) -> None:
        lease = leases.add("r", LEASE_MS)
        await reached(lambda: len(api.of("extend")) >= 3)
        await leases.decide(lease, "ack")
        renewed = len(api.of("extend"))
        await asyncio.sleep(LEASE_MS / 1_000)
        assert renewed == len(api.of("extend"))

    run(api, test)

    assert [["r"]] == api.of("ack")
    assert {"lease_ms": LEASE_MS} == next(fields for action, _, fields in api.requests if action == "extend")


def test_decisions_that_are_made_together_travel_together() -> None:
    """The first decisions are sent at once; those that are made meanwhile go in one request, of at most 500."""
    api = Api()
    api.is_slow = True

    async def test(leases: Leases) -> None:
        held = [leases.add(f"r{number}", 60_000) for number in range(1_200)]
        await asyncio.gather(*(leases.decide(it, "ack") for it in held))

    run(api, test)

    assert [500, 500, 200] == [len(it) for it in api.of("ack")]
    assert {1} == set(Counter(receipt for it in api.of("ack") for receipt in it).values())


def test_decisions_with_different_delays_do_not_share_a_request() -> None:
    api = Api()

    async def test(leases: Leases) -> None:
        held = [leases.add(f"r{number}", 60_000) for number in range(3)]
        await asyncio.gather(*(leases.decide(it, "nack", delay) for it, delay in zip(held, (5, None, 5), strict=True)))

    run(api, test)

    assert [("nack", ["r0", "r2"], {"delay_ms": 5}), ("nack", ["r1"], {})] == api.requests


@pytest.mark.parametrize("status", ["expired", "invalid"])
def test_a_decision_after_the_lease_has_ended_raises(status: str) -> None:
    api = Api(lambda action, receipt: status)

    async def test(leases: Leases) -> None:
        lease = leases.add("r", 60_000)
        for _ in range(2):  # the second one is not sent
            with pytest.raises(LeaseExpired):
                await leases.decide(lease, "ack")
        assert lease.is_lost

    run(api, test)

    assert [["r"]] == api.of("ack")


def test_a_receipt_with_an_unknown_outcome_is_sent_again() -> None:
    api = Api()
    api.status = lambda action, receipt: "unknown" if receipt == "b" and len(api.requests) < 3 else "ok"

    async def test(leases: Leases) -> None:
        await asyncio.gather(*(leases.decide(leases.add(it, 60_000), "ack") for it in "ab"))

    run(api, test)

    assert [["a", "b"], ["b"], ["b"]] == api.of("ack")


def test_a_lease_that_cannot_be_renewed_is_lost() -> None:
    api = Api(lambda action, receipt: "expired" if action == "extend" else "ok")

    async def test(leases: Leases) -> None:
        lease = leases.add("r", LEASE_MS)
        await reached(lambda: not lease.is_open)
        assert lease.is_lost

    run(api, test)

    assert [] == api.of("nack")


def test_a_renewal_without_an_answer_is_tried_again() -> None:
    api = Api()
    api.problem = BrokersUnavailable("down")

    async def test(leases: Leases) -> None:
        lease = leases.add("r", LEASE_MS)
        await reached(lambda: len(api.of("extend")) >= 2)
        assert lease.is_open
        api.problem = None

    run(api, test)

    assert [["r"]] == api.of("nack")


def test_another_broker_is_asked_while_the_lease_lasts() -> None:
    """A broker that is frozen is given up in time; a busy one has a second, and no broker more than 20."""
    api = Api()

    async def test(leases: Leases) -> None:
        for lease_ms in (1_000, 30_000, 600_000):
            await leases.decide(leases.add("r", lease_ms), "ack")

    run(api, test)

    assert [1, 5, 20] == api.response_s


def test_a_renewal_that_is_refused_is_not_repeated_at_once() -> None:
    """For example, the topic may have been deleted while the message is worked on."""
    api = Api()
    api.problem = RequestRefused(404, "no such topic", {})

    async def test(leases: Leases) -> None:
        leases.add("r", 6_000)
        leases._open["r"].renew_at = 0
        await asyncio.sleep(0.5)
        assert [["r"]] == api.of("extend")

    run(api, test)


def test_each_caller_gets_the_problem_and_may_try_again() -> None:
    api = Api()

    async def test(leases: Leases) -> None:
        held = [leases.add(it, 60_000) for it in "ab"]
        api.problem = BrokersUnavailable("down")
        outcomes = await asyncio.gather(*(leases.decide(it, "ack") for it in held), return_exceptions=True)
        assert [api.problem] * 2 == outcomes
        api.problem = None
        await leases.decide(held[0], "ack")

    run(api, test)

    assert [["a", "b"], ["a"]] == api.of("ack")
    assert [["b"]] == api.of("nack")


def test_messages_that_are_not_finished_are_released_at_once() -> None:
    api = Api()

    async def test(leases: Leases) -> None:
        held = [leases.add(it, 60_000) for it in "abc"]
        await leases.decide(held[1], "reject")

    run(api, test)

    assert [("reject", ["b"], {}), ("nack", ["a", "c"], {"delay_ms": 0})] == api.requests


def test_a_finished_message_cannot_be_finished_again() -> None:
    async def test(leases: Leases) -> None:
        lease = leases.add("r", 60_000)
        await leases.decide(lease, "ack")
        with pytest.raises(ValueError, match="finished already"):
            await leases.decide(lease, "reject")

    run(Api(), test)
