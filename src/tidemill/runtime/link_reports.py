"""Logs links that cannot be established: each problem with a peer once, at an appropriate level.

    no link for NOTICE_MS ─▶ info ─▶ for OUTAGE_MS ─▶ warning, once ─┬▶ a link again ──────────────▶ "link restored"
                                                                     └▶ the address is not dialled ─▶ "link not needed"

A problem that ends within NOTICE_MS, such as a peer that starts a little later, is not logged.  A refusal that only a
changed setting can end, such as for a different cluster key, is logged as a warning immediately.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tidemill.telemetry.event_log import OUTAGE_MS, EventLog

PEERS_MAX: Final = 256
"""The limit on peers whose problems are remembered to avoid repeated reports; beyond it, the oldest is forgotten."""

NOTICE_MS: Final = 5_000
"""Brokers that start or restart together reach each other within this time, so a shorter outage is not logged."""

REPORTS_PER_PEER_MAX: Final = 8
"""The limit on different reports per peer until a link to it is established."""


@dataclass(slots=True)
class _Outage:
    began_at: float  # when the first failure since the last link happened, in seconds
    problems: list[str] = field(default_factory=list)
    is_warned: bool = False


class LinkReports:
    """Logs problems with peers.  A peer that this broker dials is called `to HOST:PORT`, any other peer `from HOST`."""

    def __init__(self, events: EventLog, now: Callable[[], float]) -> None:
        self.last_failure: str | None = None
        self.last_refusal: str | None = None  # since the last link
        self._events = events
        self._now = now
        self._outages: dict[str, _Outage] = {}

    def refused(self, peer: str, why: str) -> None:
        """Report that this broker refuses the peer, which only a changed setting can end."""
        outage = self._outage_of(peer, why)
        self.last_refusal = self.last_failure
        if self._is_new(outage, why):
            self._warn(outage, peer, why)

    def failed(self, peer: str, why: str) -> None:
        """
        Report a failure other than a refusal by this broker.

        Only the end that dials knows how long an outage lasts: it logs nothing for a short outage, and a warning for a
        long one.  A failure of the other end's dial is logged immediately.
        """
        outage = self._outage_of(peer, why)
        is_dialled = peer.startswith("to ")
        down_ms = (self._now() - outage.began_at) * 1_000
        if is_dialled and down_ms < NOTICE_MS:
            return
        if is_dialled and down_ms >= OUTAGE_MS and not outage.is_warned:
            self._warn(outage, peer, why)
        elif self._is_new(outage, why):
            self._events.event("no link to a broker", problem=_problem(peer, why))

    def linked(self, peer: str) -> None:
        self.last_refusal = None
        outage = self._outages.pop(peer, None)
        if outage is not None and outage.is_warned and peer.startswith("to "):
            self._report_end("link restored", peer, outage)

    def forget(self, peer: str) -> None:
        """
        Forget a peer that is no longer dialled, because its broker has another address now or is not in the metadata.

        This also ends a warning about the peer.  A broker that comes back with an empty directory has no address until
        it registers, so an outage that caused a warning is remembered: "link restored" follows if the address is
        dialled again.
        """
        outage = self._outages.get(peer)
        if outage is None:
            return
        if outage.is_warned:
            outage.problems.clear()  # so that a failure after the address has come back is logged
            self._report_end("link not needed", peer, outage)
        else:
            del self._outages[peer]

    def _report_end(self, event: str, peer: str, outage: _Outage) -> None:
        self._events.event(event, peer=peer, down_s=round(self._now() - outage.began_at))

    def _outage_of(self, peer: str, why: str) -> _Outage:
        self.last_failure = _problem(peer, why)
        outage = self._outages.setdefault(peer, _Outage(self._now()))
        if len(self._outages) > PEERS_MAX:
            del self._outages[next(iter(self._outages))]
        return outage

    def _is_new(self, outage: _Outage, why: str) -> bool:
        if why in outage.problems or len(outage.problems) >= REPORTS_PER_PEER_MAX:
            return False
        outage.problems.append(why)
        return True

    def _warn(self, outage: _Outage, peer: str, why: str) -> None:
        outage.is_warned = True
        self._events.warning("no link to a broker", problem=_problem(peer, why))


def _problem(peer: str, why: str) -> str:
    return f"no link {peer}: {why}"
