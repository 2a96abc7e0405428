"""Keeps the locks of the micro-batches in progress, and ends them: the work between a batch's plan and its end.

A thread renews the locks, because a batch may take longer than a lock lasts.  It has its own connections.  If this
process dies, the locks end with time.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Final, Protocol

from tidemill.client.failures import ClientError
from tidemill.columnar.share_batch import Holder

_LOG = logging.getLogger(__name__)

_RENEWALS_PER_LOCK: Final = 4
_INTERVAL_S_MIN: Final = 0.05
_CLOSE_SECONDS_MAX: Final = 5  # a renewal whose broker does not respond ends later, at its request timeout


class Locks(Protocol):
    """The locks of a group's records.  The methods raise ClientError, and return how many records they changed."""

    def renew(self, holder: Holder) -> int: ...
    def accept(self, holder: Holder) -> int: ...
    def release(self, holder: Holder) -> int: ...
    def close(self) -> None: ...


class LockKeeper:
    """The holders of one run of a query."""

    def __init__(self, open_locks: Callable[[], Locks]) -> None:
        """`open_locks` returns locks with connections of their own."""
        self._open_locks = open_locks
        self._mutex = threading.Lock()  # protects the two sets of holders
        self._held: dict[Holder, None] = {}  # in a batch in progress
        self._done: dict[Holder, None] = {}  # in a complete batch, and not yet acknowledged
        self._interval_s = 1.0
        self._warned = ""
        self._is_closing = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, holder: Holder) -> None:
        """Note that a holder may have records from now on."""
        with self._mutex:
            self._held[holder] = None

    def forget(self, holder: Holder) -> None:
        """Note that a holder has no records after all."""
        with self._mutex:
            self._held.pop(holder, None)

    def keep(self, lock_ms: int) -> None:
        """Renew the locks from now on.  They last for `lock_ms`."""
        self._interval_s = max(lock_ms / 1_000 / _RENEWALS_PER_LOCK, _INTERVAL_S_MIN)
        if self._thread is None:
            # The thread must not keep a process alive that Spark ends.
            self._thread = threading.Thread(target=self._run, name="tidemill-locks", daemon=True)
            self._thread.start()

    def complete(self, holders: Iterable[Holder], locks: Locks) -> None:
        """
        Acknowledge what these holders still have, because their batch is complete.

        If that fails, it is only logged: the thread tries again until it succeeds, and keeps the locks until then.
        """
        with self._mutex:
            for holder in holders:
                self._held.pop(holder, None)
                self._done[holder] = None
        self._accept(locks)

    def close(self) -> None:
        """Release what the batches in progress hold, so that others get it, after the group's back-off."""
        self._is_closing.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS_MAX)
        with self._mutex:
            held = list(self._held)
        if not held and not self._done:
            return
        try:
            with closing(self._open_locks()) as locks:
                self._accept(locks)
                for holder in held:
                    locks.release(holder)
        except ClientError as error:
            _LOG.warning("records of the batch in progress stay locked until their locks end: %s", error)

    def _run(self) -> None:
        with closing(self._open_locks()) as locks:
            while not self._is_closing.wait(self._interval_s):
                self._accept(locks)
                with self._mutex:
                    holders = [*self._held, *self._done]
                for holder in holders:
                    if self._is_closing.is_set():
                        return
                    try:
                        locks.renew(holder)
                    except ClientError as error:
                        self._warn(f"a lock on {holder.partition} was not renewed: {error}")

    def _accept(self, locks: Locks) -> None:
        with self._mutex:
            done = list(self._done)
        for holder in done:
            try:
                count = locks.accept(holder)
            except ClientError as error:
                self._warn(f"records of {holder.partition} are not acknowledged yet: {error}")
                continue
            _LOG.info("acknowledged %d records of %s", count, holder.partition)
            with self._mutex:
                self._done.pop(holder, None)

    def _warn(self, text: str) -> None:
        """Log a warning, unless it repeats the last one: a failure that lasts is met again and again."""
        if text != self._warned:
            self._warned = text
            _LOG.warning("%s", text)
