"""Decides the admission of a data directory to the cluster: its broker id, and the directory that it replaces, if any.

Admission precedes registration: until a broker registers its endpoints (`brokers.RegisterBroker`), it carries no
replicas of topics and is not shown to clients.  Recording the admission reserves the broker id and lets the broker
follow the metadata shard.
"""

from dataclasses import dataclass
from typing import Final

from tidemill.metadata.feature_levels import OLDEST, recorded_level, refusal_of_older
from tidemill.metadata.image import Broker, ClusterImage
from tidemill.metadata.metadata_records import BrokerRecord, Record, ReplicasRecord
from tidemill.metadata.result import DecisionContext, Problem, Result
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import METADATA_SHARD

BROKER_ID_MAX: Final = (1 << 31) - 1  # Kafka's messages encode broker ids as INT32
NO_BROKER: Final = BrokerId(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitBroker:
    """Admit a data directory.

    If the directory has already been admitted, the response is the same, and no records are written.
    """

    directory_id: DirectoryId
    broker_id: BrokerId | None  # the requested id; None: the controller assigns one
    live: frozenset[BrokerId]  # live brokers, whose directories cannot be replaced
    level: int = OLDEST  # the highest feature level that the broker supports
    was_admitted: bool = False  # the directory already has `broker_id`: confirm or refuse it, but assign no id


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    cluster_id: str
    broker_id: BrokerId  # NO_BROKER if there is a problem
    problem: Problem | None = None


def admit_broker(context: DecisionContext, command: AdmitBroker) -> Result[Admitted]:
    image = context.image
    too_old = refusal_of_older(command.broker_id, command.level, image.feature_level)
    if too_old is not None:
        return _refused(image, errors.UNSUPPORTED_VERSION, too_old)
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
        why = f"broker.id={broker_id} is refused: it must be from 0 to {BROKER_ID_MAX}; set an unused id"
        return _refused(image, errors.INVALID_REQUEST, why)
    held = image.brokers.get(broker_id)
    if command.was_admitted:
        return _refused(image, *_not_admitted_problem(broker_id, command.directory_id, held))
    level = recorded_level(image.feature_level, command.level)
    record = BrokerRecord(broker_id, command.directory_id, (), None, level)
    admitted = Admitted(cluster_id=image.cluster_id, broker_id=broker_id)
    if held is None:
        return Result((record,), admitted)
    if broker_id in command.live:
        return _refused(
            image,
            errors.DUPLICATE_BROKER_REGISTRATION,
            f"broker.id={broker_id} is refused for data directory {command.directory_id.hex()}: it is in use by a live "
            f"broker with data directory {held.directory_id.hex()}; leave broker.id out, or set an unused id",
        )
    moved, warnings = _replace_directory(image, held.voter, ReplicaKey(broker_id, command.directory_id))
    return Result((record, *moved), admitted, warnings)


def _not_admitted_problem(broker_id: BrokerId, old: DirectoryId, held: Broker | None) -> Problem:
    if held is None:
        why = f"broker {broker_id} was never admitted to this cluster with data directory {old.hex()}, or was removed"
        return Problem(errors.BROKER_ID_NOT_REGISTERED, f"{why}; start it on an empty directory")
    return Problem(
        errors.DUPLICATE_BROKER_REGISTRATION,
        f"broker.id={broker_id} is refused: data directory {held.directory_id.hex()} has replaced {old.hex()}; start "
        "the broker on the new directory, or on an empty one with broker.id left out or set to an unused id",
    )


def _replace_directory(image: ClusterImage, old: ReplicaKey, new: ReplicaKey) -> tuple[list[Record], tuple[str, ...]]:
    """Return the records that replace directory `old` with `new`, and a warning if shards are lost with `old`.

    The new directory replaces the old one among the replicas of every shard.  Its copy is no move that can be
    cancelled, so that the shard forgets where it was before its last move, which may have ended long ago.  A shard
    of one or two replicas loses its majority with the old directory, and can no longer be served; the warning names its
    topic.
    """
    records: list[Record] = []
    lost: list[str] = []
    for shard in image.shards.values():
        if old in shard.replicas or old in shard.previous:
            replicas = _replaced(shard.replicas, old, new)
            previous = () if old in shard.replicas else _replaced(shard.previous, old, new)
            records.append(ReplicasRecord(shard.shard_id, replicas, previous, shard.reason))
            if old in shard.replicas and len(replicas) <= 2 and shard.shard_id != METADATA_SHARD:
                lost.append(f"{image.topics_by_id[shard.topic_id].name} (shard {shard.shard_id})")
    if not lost:
        return records, ()
    named = ", ".join(lost[:10]) + (f" and {len(lost) - 10} more" if len(lost) > 10 else "")
    return records, (
        f"broker {old.broker_id} has a new data directory, {new.directory_id.hex()}; the old one, "
        f"{old.directory_id.hex()}, had one of at most two replicas of {named}, of which no majority is left, so that "
        "they cannot be served; delete these topics, or start a new cluster from a copy of the old directory",
    )


def _replaced(replicas: tuple[ReplicaKey, ...], old: ReplicaKey, new: ReplicaKey) -> tuple[ReplicaKey, ...]:
    return tuple(new if voter == old else voter for voter in replicas)


def _refused(image: ClusterImage, error_code: int, why: str) -> Result[Admitted]:
    problem = Problem(error_code, why)
    return Result((), Admitted(cluster_id=image.cluster_id, broker_id=NO_BROKER, problem=problem))
