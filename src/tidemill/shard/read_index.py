"""Linearizable reads without a log entry: the leader confirms that it still leads (ReadIndex, Ongaro's thesis §6.4).

    wait(reader) ─▶ next round ── no round in flight ─▶ round n in flight ── a majority has answered n ─▶ readers wake

Once a majority of the voters has answered a message that was sent after a reader called `wait`, the reader may return
the state that was committed at the time of the call.  At most one round is in flight, and it serves all readers that
called `wait` before the round began; later readers share the next round.
"""

from collections.abc import Callable

from tidemill.raft.replica import Replica
from tidemill.shard.commit_waiters import Waiter


class ReadIndex:
    """
    The readers that are waiting until a majority has confirmed that this replica still leads.  Invariant: `_next` is
    empty unless a round is in flight.
    """

    __slots__ = ("_next", "_replica", "_round", "_send", "waiting")

    def __init__(self, replica: Replica, send: Callable[[], None]) -> None:
        """`send` sends the messages that `replica` has ready, such as those of a new round."""
        self._replica = replica
        self._send = send
        self._round = 0
        self.waiting: list[Waiter] = []  # readers of the round in flight
        self._next: list[Waiter] = []

    def wait(self, waiter: Waiter) -> None:
        """
        Call `waiter` with True once a majority has confirmed, after this call, that this replica still leads, or with
        False if leadership is lost first.
        """
        self._next.append(waiter)
        if not self.waiting:
            self._begin()

    def _begin(self) -> None:
        self.waiting, self._next = self._next, []
        self._round = self._replica.request_read_index()
        self._send()

    def wake(self) -> None:
        """
        If the round in flight is confirmed, begin the next round and call the waiters.  The next round begins first,
        because a waiter may raise.
        """
        if self._replica.read_index_round >= self._round:
            waiting, self.waiting = self.waiting, []
            if self._next:
                self._begin()
            for waiter in waiting:
                waiter(True)

    def fail(self) -> None:
        """Call all waiters with False: leadership is lost, or the shard is stopped."""
        waiting = self.waiting + self._next
        self.waiting, self._next = [], []
        for waiter in waiting:
            waiter(False)
