"""Linearizable reads without a log entry: the leader confirms that it still leads.  Ongaro's thesis §6.4 (ReadIndex).

    wait(reader) ─▶ next round ── no round in flight ─▶ round n in flight ── a majority has answered n ─▶ readers wake

A reader may be answered from what was committed when it asked, once a majority of the voters has answered a message
that was sent afterwards.  At most one round is in flight, and it serves all readers that came before it began; later
readers share the next one.
"""

from collections.abc import Callable

from tidemill.raft.replica import Replica
from tidemill.shard.commit_waiters import Waiter


class ReadIndex:
    """
    Invariant: `_next` is empty unless a round is in flight.
    """

    __slots__ = ("_next", "_replica", "_round", "_send", "waiting")

    def __init__(self, replica: Replica, send: Callable[[], None]) -> None:
        """`send` makes the messages leave that a round needs."""
        self._replica = replica
        self._send = send
        self._round = 0
        self.waiting: list[Waiter] = []  # for the round in flight
        self._next: list[Waiter] = []

    def wait(self, waiter: Waiter) -> None:
        """Call `waiter` with True once a majority has confirmed this leader, with False if leadership is lost first."""
        self._next.append(waiter)
        if not self.waiting:
            self._begin()

    def _begin(self) -> None:
        self.waiting, self._next = self._next, []
        self._round = self._replica.request_read_index()
        self._send()

    def wake(self) -> None:
        """Answer the round in flight if it is confirmed.  The next round begins first: a waiter may raise."""
        if self._replica.read_index_round >= self._round:
            waiting, self.waiting = self.waiting, []
            if self._next:
                self._begin()
            for waiter in waiting:
                waiter(True)

    def fail(self) -> None:
        """Leadership is lost, or the shard is stopped."""
        waiting = self.waiting + self._next
        self.waiting, self._next = [], []
        for waiter in waiting:
            waiter(False)
