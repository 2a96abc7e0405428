"""A process with a new data directory asks to be a broker: which number it gets, and whose place it takes.

Admitted is not registered: until a broker has said where it is reached (`brokers.RegisterBroker`) it carries no topic's
replicas and no client sees it.  Its record is there all the same, so that its number is taken, and so that it follows
the metadata shard.
"""

from dataclasses import dataclass
from typing import Final

from tidemill.metadata.image import Broker, ClusterImage
from tidemill.metadata.metadata_records import BrokerRecord, Record, ReplicasRecord
from tidemill.metadata.result import DecisionContext, Problem, Result
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey

BROKER_ID_MAX: Final = (1 << 31) - 1  # Kafka's messages carry an INT32
NO_BROKER: Final = BrokerId(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitBroker:
    """Asked again by the same directory, the answer is the same and nothing is written."""

    directory_id: DirectoryId
    broker_id: BrokerId | None  # the number it wishes for
    live: frozenset[BrokerId]  # whose place cannot be taken
    was_admitted: bool = False  # it had the number before: that is confirmed or refused, and never given again


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    cluster_id: str
    broker_id: BrokerId  # NO_BROKER with a problem
    problem: Problem | None = None


def admit_broker(context: DecisionContext, command: AdmitBroker) -> Result[Admitted]:
    image = context.image
    known = next((b for b in image.brokers.values() if b.directory_id == command.directory_id), None)
    if known is not None:
        if command.broker_id not in (None, known.broker_id):
            return _refused(
                image,
                errors.INVALID_REQUEST,
                f"broker.id={command.broker_id} is refused: data directory {command.directory_id.hex()} belongs to "
                f"broker {known.broker_id}; set that, or leave broker.id out",
            )
        return Result((), Admitted(cluster_id=image.cluster_id, broker_id=known.broker_id))
    broker_id = BrokerId(max(image.brokers, default=0) + 1) if command.broker_id is None else command.broker_id
    if not 0 <= broker_id <= BROKER_ID_MAX:
        why = f"broker.id={broker_id} is refused: a number from 0 to {BROKER_ID_MAX} is wanted; set a free one"
        return _refused(image, errors.INVALID_REQUEST, why)
    held = image.brokers.get(broker_id)
    if command.was_admitted:
        return _refused(image, *_no_longer(broker_id, command.directory_id, held))
    record = BrokerRecord(broker_id, command.directory_id, (), None)
    admitted = Admitted(cluster_id=image.cluster_id, broker_id=broker_id)
    if held is None:
        return Result((record,), admitted)
    if broker_id in command.live:
        return _refused(
            image,
            errors.DUPLICATE_BROKER_REGISTRATION,
            f"broker.id={broker_id} is refused: it is live with data directory {held.directory_id.hex()}, and "
            f"{command.directory_id.hex()} wants its number; leave broker.id out, or set a free one",
        )
    moved, warnings = _taken_over(image, held.voter, ReplicaKey(broker_id, command.directory_id))
    return Result((record, *moved), admitted, warnings)


def _no_longer(broker_id: BrokerId, old: DirectoryId, held: Broker | None) -> Problem:
    if held is None:
        why = f"broker {broker_id} was never admitted here with data directory {old.hex()}"
        return Problem(errors.BROKER_ID_NOT_REGISTERED, f"{why}; start it on an empty directory")
    return Problem(
        errors.DUPLICATE_BROKER_REGISTRATION,
        f"broker.id={broker_id} is refused: data directory {held.directory_id.hex()} has taken the place of "
        f"{old.hex()}; use that one, or an empty one and leave broker.id out, or set a free one",
    )


def _taken_over(image: ClusterImage, old: ReplicaKey, new: ReplicaKey) -> tuple[list[Record], tuple[str, ...]]:
    """The new directory is planned wherever the old one was; what only that one had stays where it is, and is told."""
    records: list[Record] = []
    lost: list[str] = []
    for shard in image.shards.values():
        if old in shard.replicas:
            replicas = tuple(new if voter == old else voter for voter in shard.replicas)
            records.append(ReplicasRecord(shard.shard_id, replicas))
            if len(replicas) == 1:
                lost.append(f"{image.topics_by_id[shard.topic_id].name} (shard {shard.shard_id})")
    if not lost:
        return records, ()
    named = ", ".join(lost[:10]) + (f" and {len(lost) - 10} more" if len(lost) > 10 else "")
    return records, (
        f"broker {old.broker_id} has a new data directory, {new.directory_id.hex()}; only the old one, "
        f"{old.directory_id.hex()}, had {named}: they cannot be served; delete their topics, or start a new cluster "
        "from a copy of that directory",
    )


def _refused(image: ClusterImage, error_code: int, why: str) -> Result[Admitted]:
    problem = Problem(error_code, why)
    return Result((), Admitted(cluster_id=image.cluster_id, broker_id=NO_BROKER, problem=problem))
