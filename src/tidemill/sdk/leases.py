"""The leases of the messages that a queue has received: they are renewed until each message is finished.

Requests about several messages are combined: while one is on its way, further receipts wait for the next one.

received ─▶ renewed each third of the lease ─▶ ack, nack, reject ─▶ status ok: finished
                  └─ status expired: lost, another consumer may have the message
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Final, Literal, NamedTuple

from tidemill.sdk.api_client import RESPONSE_S_MAX, ApiClient
from tidemill.sdk.problems import BrokersUnavailable, LeaseExpired, RequestRefused

RECEIPTS_MAX: Final = 500  # in a request
RENEWALS: Final = 3  # within the duration of a lease, so that one or two may fail
RESPONSE_S_MIN: Final = 1.0  # even for a shorter lease: a busy broker may need it
PERIOD_S_MIN: Final = 0.05
UNKNOWN_PAUSE_S: Final = 0.2  # before receipts with the status unknown are sent again
UNKNOWN_S_MAX: Final = 60.0  # for which they are sent again
Decision = Literal["ack", "nack", "reject", "undo"]
"""`undo` releases a message with which no consumer has begun, so that its delivery does not count."""
log = logging.getLogger("tidemill.queue")


class Lease:
    """The hold of a consumer on a message."""

    __slots__ = ("is_deciding", "is_lost", "is_open", "lease_ms", "receipt", "renew_at")

    def __init__(self, receipt: str, lease_ms: int, renew_at: float) -> None:
        self.receipt = receipt
        self.lease_ms = lease_ms
        self.renew_at = renew_at  # in the loop's time
        self.is_open = True  # until the message is finished, or the lease is lost
        self.is_deciding = False  # a decision is on its way, so the lease is not renewed
        self.is_lost = False


class _Request(NamedTuple):
    """Receipts with equal fields can share a request."""

    decision: Decision
    delay_ms: int | None


class Leases:
    def __init__(self, api: ApiClient, path: str) -> None:
        """Decide about messages of the queue at `path`, such as `/v1/queues/mails/senders`."""
        self._api = api
        self._path = path
        self._open: dict[str, Lease] = {}
        self._waiting: dict[_Request, list[tuple[Lease, asyncio.Future[None]]]] = {}
        self._sending: dict[_Request, asyncio.Task[None]] = {}
        self._renewing: asyncio.Task[None] | None = None

    def add(self, receipt: str, lease_ms: int) -> Lease:
        """Return the lease of a message that has just been received, and renew it from now on."""
        now = asyncio.get_running_loop().time()
        lease = self._open[receipt] = Lease(receipt, lease_ms, now + lease_ms / 1_000 / RENEWALS)
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())
        return lease

    async def decide(self, lease: Lease, decision: Decision, delay_ms: int | None = None) -> None:
        """
        Finish a message, or release it for delivery after `delay_ms` (None: the group's back-off).

        Raise LeaseExpired, RequestRefused or BrokersUnavailable.
        """
        if lease.is_lost or not lease.is_open:
            raise _expired() if lease.is_lost else ValueError("the message is finished already")
        request = _Request(decision, delay_ms)
        decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lease.is_deciding = True
        self._waiting.setdefault(request, []).append((lease, decided))
        if request not in self._sending:
            self._sending[request] = asyncio.create_task(self._send(request))
        await decided

    def abandon(self, lease: Lease) -> None:
        """Renew a lease no more, so that its message is delivered again when it ends."""
        self._close(lease, is_lost=lease.is_open or lease.is_lost)

    async def release_all(self, unbegun: Collection[Lease] = ()) -> None:
        """
        Release all messages that are not finished, for immediate delivery, and renew no lease any more.  Those with
        which no consumer has begun do not count as delivered: otherwise they would be set aside after a few stops.
        """
        if self._renewing is not None:
            self._renewing.cancel()
        await asyncio.gather(*self._sending.values(), return_exceptions=True)
        outcomes = await asyncio.gather(
            *(
                self.decide(it, "undo") if it in unbegun else self.decide(it, "nack", 0)
                for it in [*self._open.values()]
            ),
            return_exceptions=True,
        )
        for problem in outcomes:
            if isinstance(problem, BaseException) and not isinstance(problem, LeaseExpired):
                log.warning("a message was not released; it is delivered again when its lease ends: %s", problem)

    async def _send(self, request: _Request) -> None:
        await asyncio.sleep(0)  # others that are ready to decide do so in this request
        try:
            while waiting := self._waiting.pop(request, None):
                sent, later = waiting[:RECEIPTS_MAX], waiting[RECEIPTS_MAX:]
                if later:
                    self._waiting[request] = later
                await self._send_part(request, sent)
        finally:
            del self._sending[request]

    async def _send_part(self, request: _Request, part: list[tuple[Lease, asyncio.Future[None]]]) -> None:
        loop = asyncio.get_running_loop()
        action: str = request.decision
        more: dict[str, object] = {} if request.delay_ms is None else {"delay_ms": request.delay_ms}
        if action == "undo":
            action, more = "nack", {"counted": False}
        until = loop.time() + UNKNOWN_S_MAX
        while part:
            try:
                statuses = await self._statuses(action, [lease for lease, _ in part], more)
            except Exception as problem:  # each of those that wait raises it
                for lease, decided in part:
                    lease.is_deciding = False
                    _fail(decided, problem)
                return
            unknown = []
            for (lease, decided), status in zip(part, statuses, strict=True):
                if status == "unknown" and loop.time() < until:
                    unknown.append((lease, decided))
                    continue
                self._close(lease, is_lost=status != "ok")
                if status == "ok" and not decided.done():
                    decided.set_result(None)
                elif status != "ok":
                    _fail(decided, _expired())
            part = unknown
            if part:
                await asyncio.sleep(UNKNOWN_PAUSE_S)

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        while self._open:
            now = loop.time()
            due = [it for it in self._open.values() if it.renew_at <= now and not it.is_deciding]
            for first in range(0, len(due), RECEIPTS_MAX):
                await self._renew_part(due[first : first + RECEIPTS_MAX])
            next_at = min((it.renew_at for it in self._open.values() if not it.is_deciding), default=loop.time() + 1)
            await asyncio.sleep(max(next_at - loop.time(), PERIOD_S_MIN))

    async def _renew_part(self, part: list[Lease]) -> None:
        began_at = asyncio.get_running_loop().time()
        try:
            statuses = await self._statuses("extend", part, {"lease_ms": part[0].lease_ms})
        except (BrokersUnavailable, RequestRefused) as problem:
            log.warning("%d leases at %s were not renewed: %s", len(part), self._path, problem)
            statuses = ["refused" if isinstance(problem, RequestRefused) else "unknown"] * len(part)
        for lease, status in zip(part, statuses, strict=True):
            if status == "unknown":
                lease.renew_at = began_at + PERIOD_S_MIN
            elif status in ("ok", "refused"):  # a refusal will hardly change at once
                lease.renew_at = began_at + lease.lease_ms / 1_000 / RENEWALS
            elif not lease.is_deciding:  # else the response to the decision tells
                self._close(lease, is_lost=True)

    async def _statuses(self, action: str, leases: Collection[Lease], more: dict[str, object]) -> list[str]:
        body = {"receipts": [it.receipt for it in leases], **more}
        lease_s = min(it.lease_ms for it in leases) / 1_000
        response_s = min(max(lease_s / RENEWALS / 2, RESPONSE_S_MIN), RESPONSE_S_MAX)  # another broker has time left
        response = await self._api.call("POST", f"{self._path}/{action}", body, response_s=response_s)
        statuses: list[str] = response["statuses"]
        return statuses

    def _close(self, lease: Lease, *, is_lost: bool) -> None:
        lease.is_open, lease.is_lost = False, is_lost
        self._open.pop(lease.receipt, None)


def _expired() -> LeaseExpired:
    return LeaseExpired("the lease of the message has ended; the message is, or was, delivered again")


def _fail(decided: "asyncio.Future[None]", problem: Exception) -> None:
    if not decided.done():
        decided.set_exception(problem)
