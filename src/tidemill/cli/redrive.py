"""
Sends letters of a dead-letter topic back, and waits until they are written.

The leader of each partition decides what is sent: a letter that it sends back, or has sent back, is not sent again.  So
a redrive may be interrupted and repeated at any point.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from tidemill.cli.redrive_plan import OffsetRun, RedrivePlan, take
from tidemill.spark.pipelines.frame.progress import Progress

BATCH_LETTERS_MAX: Final = 500
BATCHES_PER_S: Final = 5  # with a rate: often enough for an even load
SILENCE_S_MAX: Final = 60.0  # after this time without a letter being written, the command no longer waits
POLL_S: Final = 0.25


class SentBack(NamedTuple):
    """The answer of a leader to a batch of offsets."""

    sent: int  # letters that are sent back because of this request
    before: int  # letters that an earlier request has sent back
    undecided: int  # letters about which another request is just deciding


class RedriveShare(Protocol):
    """The share whose dead records are the letters to send back.  Its methods raise ClientError."""

    def send_back(self, partition: int, runs: Sequence[OffsetRun], *, is_trial: bool = False) -> SentBack:
        """
        Return when the decision of the partition's leader is committed.  It is safe to call it again.  In a trial, the
        leader counts, and sends nothing.
        """
        ...

    def waiting(self) -> Mapping[int, int]:
        """Return how many letters of each partition are sent back, but not yet written to their topic."""
        ...


@dataclass(slots=True)
class RedriveCounts:
    sent: int = 0
    before: int = 0
    undecided: int = 0


class Redrive:
    """One run of `tidemill dlq redrive`."""

    def __init__(
        self,
        share: RedriveShare,
        progress: Progress,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.counts = RedriveCounts()
        self._share = share
        self._progress = progress
        self._monotonic = monotonic
        self._sleep = sleep

    def send(
        self, plan: RedrivePlan, *, rate: int | None = None, letters_max: int | None = None, is_trial: bool = False
    ) -> None:
        """
        Send the planned letters back, at most `rate` a second, until `letters_max` are sent that were not sent before.
        In a trial, count what would be sent, and send nothing.
        """
        doing = "counting" if is_trial else "sending back"
        self._progress.begin(doing, plan.letters if letters_max is None else None)
        batch_max = BATCH_LETTERS_MAX if rate is None else max(1, min(BATCH_LETTERS_MAX, rate // BATCHES_PER_S))
        for partition, planned in sorted(plan.runs.items()):
            runs = planned.copy()
            while runs:
                room = batch_max if letters_max is None else min(batch_max, letters_max - self.counts.sent)
                if room <= 0:
                    return
                batch = take(runs, room)
                began_at = self._monotonic()
                answer = self._share.send_back(partition, batch, is_trial=is_trial)
                self.counts.sent += answer.sent
                self.counts.before += answer.before
                self.counts.undecided += answer.undecided
                self._progress.advance(sum(run.size for run in batch))
                if rate is not None and answer.sent:
                    self._sleep(max(0.0, began_at + answer.sent / rate - self._monotonic()))

    def wait(self) -> Mapping[int, int]:
        """
        Wait until every letter that is sent back is written, and return an empty mapping.

        If none was written for SILENCE_S_MAX, return how many letters of each partition remain.
        """
        waiting = self._share.waiting()
        remaining = least = sum(waiting.values())
        if remaining:
            self._progress.begin("writing", remaining)
        ends_at = self._monotonic() + SILENCE_S_MAX
        while remaining and self._monotonic() < ends_at:
            self._sleep(POLL_S)
            waiting = self._share.waiting()
            remaining = sum(waiting.values())
            if remaining < least:
                self._progress.advance(least - remaining, lag=remaining)
                least, ends_at = remaining, self._monotonic() + SILENCE_S_MAX
        return {partition: count for partition, count in sorted(waiting.items()) if count}
