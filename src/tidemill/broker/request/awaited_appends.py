"""Waits until the appends of one Produce request are as durable as `acks` requires."""

from collections.abc import Callable
from typing import Final

from tidemill.broker.clients.deadlines import Deadlines
from tidemill.model import errors
from tidemill.shard.append import Appended
from tidemill.shard.commit_waiters import Waiter
from tidemill.shard.partition import PartitionShard
from tidemill.shard.pending import Pending
from tidemill.wire.messages.produce import Response

ACKS_ALL: Final = -1

PartitionResponse = Response.Topic.Partition


class AwaitedAppends(Pending[Response | None]):
    """Completes when every append is as durable as `acks` requires, or when the client's timeout expires."""

    __slots__ = ("_begun", "_deadlines", "_timeout_ms", "_unknown", "response")

    keeps_request = True  # the journal reads the batches from the request's bytes

    def __init__(self, response: Response, deadlines: Deadlines, timeout_ms: int) -> None:
        super().__init__()
        self.response: Response | None = response
        # The appends with an unknown outcome, by number; the third item of each is the log index of its entry.
        self._unknown: dict[int, tuple[PartitionResponse, PartitionShard, int, Waiter]] = {}
        self._begun = 0  # number of appends so far; −1 when all have begun
        self._deadlines = deadlines
        self._timeout_ms = max(timeout_ms, 0)

    def wait_for(
        self,
        shard: PartitionShard,
        appended: Appended,
        answer: PartitionResponse,
        acks: int,
        insync: int,
        lost_leadership: Callable[[], None],
    ) -> None:
        """
        Wait for one append.  With acks=all, wait until at least `insync` replicas have it.  `lost_leadership` is called
        if the outcome becomes unknown because this broker has lost leadership.
        """
        at = self._begun
        self._begun += 1
        index, unknown = appended.log_index, self._unknown

        def known(is_durable: bool) -> None:
            if unknown.pop(at, None) is None:
                return  # `expire` has already set the error
            if not is_durable:
                _refuse(
                    answer,
                    errors.REQUEST_TIMED_OUT,
                    "this broker no longer leads, the outcome is unknown: look for the record, or send again",
                )
                lost_leadership()
            if not unknown and self._begun < 0:
                self._arrived()

        unknown[at] = (answer, shard, index, known)
        if acks != ACKS_ALL:
            shard.when_durable(index, known)
        elif insync > 1:
            shard.when_replicated(index, insync, known)
        else:
            shard.when_committed(index, known)

    def all_begun(self, acks: int) -> None:
        self._begun = -1
        if not self._unknown:
            self.complete(self.response)
        elif acks == ACKS_ALL:
            self._deadlines.add(self, self._timeout_ms)

    def _arrived(self) -> None:
        self._deadlines.remove(self, self._timeout_ms)
        self.complete(self.response)

    def expire(self) -> None:
        """
        Respond with an error for each append that is not durable enough: either it is committed but too few replicas
        have it, or its outcome is unknown.
        """
        for answer, shard, index, known in self._unknown.values():
            shard.stop_waiting(index, known)  # otherwise the shard might keep the waiter until leadership is lost
            if index <= shard.replica.commit_index:
                _refuse(
                    answer,
                    errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                    f"committed, but on fewer than min.insync.replicas replicas after {self._timeout_ms} ms",
                )
            else:
                _refuse(answer, errors.REQUEST_TIMED_OUT, f"no majority has the batch after {self._timeout_ms} ms")
        self._unknown.clear()
        self.complete(self.response)


def _refuse(answer: PartitionResponse, error_code: int, message: str) -> None:
    answer.error_code, answer.error_message = error_code, message
    answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
