"""The transfer of one shard's leadership that an operator asks for, until its target leads."""

from typing import Final

from tidemill.broker.broker import Broker
from tidemill.broker.controller.operator_commands import DONE, Answer
from tidemill.broker.leadership.awaited_transfers import Failure
from tidemill.metadata.result import Problem
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId
from tidemill.shard.pending import Pending

WAIT_MS: Final = 5_000


def awaited_transfer(broker: Broker, shard_id: ShardId, to: BrokerId) -> Pending[Answer]:
    """Transfer the leadership of a shard to broker `to`.  The answer comes when it leads, or says why it does not."""
    pending: Pending[Answer] = Pending()
    if shard_id not in broker.image.shards:
        why = f"there is no shard {shard_id}; a deleted topic may have had it"
        pending.complete(Answer(Problem(errors.UNKNOWN_TOPIC_OR_PARTITION, why)))
        return pending

    def ended(failure: Failure | None) -> None:
        if failure is None:
            pending.complete(DONE)
        elif failure.is_refused:
            why = f"shard {shard_id} is not transferred to broker {to}: {failure.why}"
            pending.complete(Answer(Problem(errors.ELIGIBLE_LEADERS_NOT_AVAILABLE, why)))
        else:
            why = f"broker {to} does not lead shard {shard_id} yet: {failure.why}"
            pending.complete(Answer(Problem(errors.REQUEST_TIMED_OUT, why)))

    broker.awaited_transfers.begin(shard_id, to, WAIT_MS, ended)
    return pending
