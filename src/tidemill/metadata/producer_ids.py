"""Allocates producer ids to brokers in blocks, so that a new producer rarely requires a write to the metadata log."""

from dataclasses import dataclass
from typing import Final

from tidemill.metadata.metadata_records import ProducerIdsRecord
from tidemill.metadata.result import DecisionContext, Problem, Result
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId

BLOCK_SIZE: Final = 1_000  # as in Kafka; a restart wastes the rest of a block, but there are 2^63 ids in total
PRODUCER_ID_END: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """The ids allocated to the requesting broker; none if there is a problem."""

    ids: range
    problem: Problem | None = None


def allocate_producer_ids(context: DecisionContext, command: AllocateProducerIds) -> Result[ProducerIdBlock]:
    first = context.image.next_producer_id
    broker = context.image.brokers.get(command.broker_id)
    if broker is None or not broker.is_registered:
        problem = Problem(errors.BROKER_ID_NOT_REGISTERED, f"broker {command.broker_id} is not registered")
        return Result((), ProducerIdBlock(ids=range(0), problem=problem))
    end = first + BLOCK_SIZE
    if end > PRODUCER_ID_END:
        problem = Problem(errors.UNKNOWN_SERVER_ERROR, "no producer ids are left")
        return Result((), ProducerIdBlock(ids=range(0), problem=problem))
    return Result((ProducerIdsRecord(end, command.broker_id),), ProducerIdBlock(ids=range(first, end)))
