"""Fetches that wait for records of shares, first in first out per share.

    begin ─▶ evaluated ─▶ waits ─▶ its share is woken, or its wait is over ─▶ evaluated … ─▶ finished

The caller *evaluates* a fetch: it looks for available records in the fetch's shares, possibly with a read in another
thread, and then either answers the fetch and calls `finish`, or calls `keep_waiting`.  Meanwhile, no other fetch of the
same shares is evaluated: two fetches would read the same records, but only one of them could acquire them (Kafka locks
share partitions in the same way).

When records of a share may have become available, the caller wakes the share: a decision has committed, a consumer has
released records, its locks have expired, a delay has ended, a lock has become free, an acquisition was undone, or the
high watermark has moved.  The share is offered to one waiting fetch after another, until a fetch leaves no available
records.  So a wake takes effect even if the first fetch disconnects, and it does not evaluate all fetches of the share.

The functions return the fetches that the caller must evaluate now.
"""

import heapq
from collections.abc import Container, Hashable, Iterable, Iterator, KeysView
from itertools import count
from typing import Final, Generic, TypeVar

F = TypeVar("F", bound=Hashable)  # identifies a fetch
S = TypeVar("S", bound=Hashable)  # identifies a share
_TO_ALL: Final = -1


class _Fetch(Generic[F, S]):
    __slots__ = ("is_evaluated", "name", "shares", "ticket")

    def __init__(self, name: F, shares: tuple[S, ...], ticket: int) -> None:
        self.name = name
        self.shares = shares
        self.ticket = ticket  # ascends in the order in which fetches arrive
        self.is_evaluated = False  # whether the caller is evaluating this fetch


class ShareWaiters(Generic[F, S]):
    def __init__(self) -> None:
        self._tickets = count()
        self._fetches: dict[F, _Fetch[F, S]] = {}
        self._urgent: dict[int, _Fetch[F, S]] = {}  # by ticket: fetches to evaluate even if no share is woken
        self._queues: dict[S, dict[int, _Fetch[F, S]]] = {}  # by ticket, in the order of arrival
        self._offers: dict[S, int] = {}  # the woken shares: offered to the fetches whose tickets are above this one
        self._taken: set[S] = set()  # the shares of the fetches that the caller is evaluating
        self._deadlines: list[tuple[int, int, F]] = []  # heap of (deadline, ticket, fetch); some are outdated

    def __len__(self) -> int:
        return len(self._fetches)

    @property
    def waited_for(self) -> KeysView[S]:
        """The shares for which a fetch waits, or which a fetch evaluates."""
        return self._queues.keys()

    def waiting_for(self, share: S) -> Iterator[F]:
        """Yield the fetches that wait for a share, in the order of their arrival."""
        return (fetch.name for fetch in self._queues.get(share, {}).values())

    def begin(self, fetch: F, shares: Iterable[S], deadline: int) -> list[F]:
        """Add a fetch.  `deadline` is the end of its wait, in ms of monotonic time."""
        assert fetch not in self._fetches, "a fetch begins once"
        added = self._fetches[fetch] = _Fetch(fetch, tuple(dict.fromkeys(shares)), next(self._tickets))
        self._urgent[added.ticket] = added
        for share in added.shares:
            self._queues.setdefault(share, {})[added.ticket] = added
        heapq.heappush(self._deadlines, (deadline, added.ticket, fetch))
        return self._next()

    def wake(self, share: S) -> list[F]:
        """Note that records of a share may have become available."""
        if share not in self._queues:
            return []
        self._offers[share] = _TO_ALL
        return self._next()

    def keep_waiting(self, fetch: F, left: Container[S]) -> list[F]:
        """End the evaluation of a fetch that waits again.  `left`: its shares that still have available records."""
        self._end_evaluation(self._fetches[fetch], left)
        return self._next()

    def finish(self, fetch: F, left: Container[S]) -> list[F]:
        """Remove a fetch that has been answered.  `left`: its shares that still have available records."""
        finished = self._fetches[fetch]
        self._end_evaluation(finished, left)
        self._remove(finished)
        return self._next()

    def leave(self, fetch: F) -> list[F]:
        """Remove a fetch whose client has disconnected.  Its shares are offered to the next fetch."""
        gone = self._fetches[fetch]
        if gone.is_evaluated:
            self._end_evaluation(gone, gone.shares)
        self._remove(gone)
        return self._next()

    def due(self, now: int) -> list[F]:
        """Let the caller evaluate the fetches whose wait has ended by `now`; it then answers them in any case."""
        while self._deadlines and self._deadlines[0][0] <= now:
            _, ticket, name = heapq.heappop(self._deadlines)
            fetch = self._fetches.get(name)
            if fetch is not None and fetch.ticket == ticket:
                self._urgent[ticket] = fetch
        return self._next()

    def next_deadline(self) -> int | None:
        """Return the earliest monotonic time, in ms, at which the wait of a fetch may be over."""
        return self._deadlines[0][0] if self._deadlines else None

    def _next(self) -> list[F]:
        """
        Begin the evaluations that are possible.  If a fetch cannot be evaluated because other fetches use its shares,
        later fetches may not use these shares either: otherwise, its shares might never all be free at the same time.
        """
        ready = dict(self._urgent)
        for share, offered_up_to in self._offers.items():
            fetch = next((one for ticket, one in self._queues[share].items() if ticket > offered_up_to), None)
            if fetch is not None:
                ready[fetch.ticket] = fetch
        begun: list[F] = []
        blocked = set(self._taken)
        for ticket in sorted(ready):
            fetch = ready[ticket]
            if not fetch.is_evaluated and blocked.isdisjoint(fetch.shares):
                self._begin_evaluation(fetch)
                begun.append(fetch.name)
            blocked.update(fetch.shares)
        return begun

    def _begin_evaluation(self, fetch: _Fetch[F, S]) -> None:
        fetch.is_evaluated = True
        self._urgent.pop(fetch.ticket, None)
        for share in fetch.shares:
            self._taken.add(share)
            if share in self._offers:
                self._offers[share] = max(self._offers[share], fetch.ticket)

    def _end_evaluation(self, fetch: _Fetch[F, S], left: Container[S]) -> None:
        assert fetch.is_evaluated, "only an evaluation ends"
        fetch.is_evaluated = False
        for share in fetch.shares:
            self._taken.remove(share)
            # If the share was woken during the evaluation, the records that it missed are offered again, to all.
            if share not in left and self._offers.get(share) != _TO_ALL:
                self._offers.pop(share, None)

    def _remove(self, fetch: _Fetch[F, S]) -> None:
        del self._fetches[fetch.name]
        self._urgent.pop(fetch.ticket, None)
        for share in fetch.shares:
            queue = self._queues[share]
            del queue[fetch.ticket]
            if not queue:
                del self._queues[share]
                self._offers.pop(share, None)
