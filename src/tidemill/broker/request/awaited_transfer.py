"""AwaitedTransfer: the transfer of one shard's leadership that an operator asks for, until its target leads."""

from collections.abc import Sequence
from typing import Final

from tidemill.broker.broker import Broker
from tidemill.broker.controller.operator_commands import DONE, Answer
from tidemill.metadata.result import Problem
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId
from tidemill.shard.pending import Pending

WAIT_MS: Final = 5_000


class AwaitedTransfer(Pending[Answer]):
    __slots__ = ("_broker", "_shard_id", "_to")

    def __init__(self, broker: Broker, shard_id: ShardId, to: BrokerId) -> None:
        super().__init__()
        self._broker = broker
        self._shard_id = shard_id
        self._to = to
        if shard_id not in broker.image.shards:
            why = f"there is no shard {shard_id}; a deleted topic may have had it"
            self.complete(Answer(Problem(errors.UNKNOWN_TOPIC_OR_PARTITION, why)))
            return
        broker.cluster.watchers[self._check] = None
        broker.deadlines.add(self, WAIT_MS)
        if broker.cluster.reported_leader(shard_id) != to:
            broker.leadership_transfers.anywhere([(shard_id, to)], self._refused)
        self._check()

    def expire(self) -> None:
        why = f"broker {self._to} does not lead shard {self._shard_id} yet; it may be transferred later"
        self._end(Answer(Problem(errors.REQUEST_TIMED_OUT, why)))

    def _check(self) -> None:
        if self._broker.cluster.reported_leader(self._shard_id) == self._to:
            self._end(DONE)

    def _refused(self, _: Sequence[ShardId]) -> None:
        why = (
            f"shard {self._shard_id} is not transferred to broker {self._to}: it has no replica that votes there, is "
            "not up, or lags too far behind; or the shard has no leader now"
        )
        self._end(Answer(Problem(errors.ELIGIBLE_LEADERS_NOT_AVAILABLE, why)))

    def _end(self, answer: Answer) -> None:
        self._broker.cluster.watchers.pop(self._check, None)
        self._broker.deadlines.remove(self, WAIT_MS)
        self.complete(answer)
