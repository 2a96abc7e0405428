"""The proposals of the shares of one shard, as rows of the shard's log."""

from collections.abc import Callable, Iterable
from functools import partial

from tidemill.broker.machine import Machine
from tidemill.broker.shares.led_share import LedShare
from tidemill.raft.entry import COMMAND, Entry
from tidemill.shard.shard import Shard
from tidemill.share.record_status import Run
from tidemill.share.share_row import Section, SetRuns, encode_rows

Proposed = Callable[[bool], None]
"""Called once: with True when a proposal is committed and applied, or with False if its outcome is unknown."""


class ShardProposals:
    """
    Collects the decisions about the shares of one shard that are made in one turn of the event loop, and proposes them
    as one SHARE row, or as several if they exceed the largest size of a row.

    While nothing may be appended, during a leadership transfer or while the disk is full, they wait for the next tick.
    """

    def __init__(self, shard: Shard, machine: Machine, storage_problem: Callable[[], str | None]) -> None:
        self._shard = shard
        self._machine = machine
        self._storage_problem = storage_problem
        self._sections: list[Section] = []
        self._waiting: list[Proposed] = []
        self._is_scheduled = False

    def set_runs(self, led: LedShare, runs: Iterable[Run], then: Proposed) -> None:
        """Propose decided statuses.  `then` is called after `Leases.committed`."""
        decided = tuple(runs)

        def proposed(is_committed: bool) -> None:
            if is_committed:
                led.leases.committed(decided)
            then(is_committed)

        self.add(SetRuns(led.partition.number, led.share.number, decided), proposed)

    def add(self, section: Section, then: Proposed) -> None:
        """Propose a section.  `then` is called when it is applied."""
        self._sections.append(section)
        self._waiting.append(then)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._machine.turns.call_soon(self.flush)

    def flush(self) -> None:
        """Propose what has been collected, if entries may be appended now."""
        self._is_scheduled = False
        shard = self._shard
        may_append = shard.accepts_writes and shard.has_replication_credit and self._storage_problem() is None
        if not (self._sections and may_append):
            return
        sections, self._sections = self._sections, []
        waiting, self._waiting = self._waiting, []
        append_time = shard.append_time(self._machine.clock.wall_ms())
        for payload, ended in encode_rows(sections):
            index = shard.propose(Entry(COMMAND, payload, append_time=append_time))
            shard.when_committed(index, partial(_tell, waiting[:ended]))
            waiting = waiting[ended:]

    def drop(self) -> None:
        """Give up what has not been proposed: this broker no longer leads the shard."""
        waiting, self._waiting = self._waiting, []
        self._sections = []
        _tell(waiting, False)


def _tell(waiting: Iterable[Proposed], is_committed: bool) -> None:
    for then in waiting:
        then(is_committed)
