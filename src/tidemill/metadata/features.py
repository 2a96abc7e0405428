"""Decides UpdateFeatures, which raises the cluster's feature level."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.metadata.feature_levels import ELASTIC_CLUSTER, recorded_level
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import BrokerRecord, FeatureRecord, Record
from tidemill.metadata.result import DecisionContext, Problem, Result
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeatures:
    """Raise the cluster's feature level to `level`, or keep it if that is the level already."""

    level: int
    supported: Mapping[BrokerId, int]  # the highest level that each live broker supports, as it says itself now
    may_raise: bool = True  # not by a downgrade, which must never do what cannot be undone
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedFeatures:
    level: int  # of the cluster after the command; with `validate_only`, what it would be
    problem: Problem | None = None


def update_features(context: DecisionContext, command: UpdateFeatures) -> Result[UpdatedFeatures]:
    """
    Raise the level if every registered broker is live and supports the new one, and refuse it otherwise: a broker of an
    older version could not read what the others may write from then on.

    What live brokers say counts, and not what is recorded: a broker may be starting again with an older version.  The
    levels are recorded together with the new level.
    """
    image, level = context.image, command.level
    problem = _problem(image, level, command.supported, may_raise=command.may_raise)
    if problem is not None:
        return Result((), UpdatedFeatures(level=image.feature_level, problem=problem))
    is_raised = level > image.feature_level and not command.validate_only
    return Result(_records(image, level, command.supported) if is_raised else (), UpdatedFeatures(level=level))


def _concerned(image: ClusterImage, supported: Mapping[BrokerId, int]) -> list[BrokerId]:
    """
    Return the registered brokers, and those that are live but not registered yet.  One that is neither carries nothing,
    and is told by name what to do when it starts.
    """
    return [it for it, broker in sorted(image.brokers.items()) if broker.is_registered or it in supported]


def _problem(image: ClusterImage, level: int, supported: Mapping[BrokerId, int], *, may_raise: bool) -> Problem | None:
    current = image.feature_level
    if level < current:
        return Problem(
            errors.INVALID_UPDATE_VERSION,
            f"feature level {level} is refused: the cluster is at level {current}, which is never lowered, because its "
            "logs may contain what older versions of Tidemill cannot read",
        )
    if level > current and not may_raise:
        return Problem(
            errors.INVALID_UPDATE_VERSION,
            f"a downgrade to feature level {level} is refused: the cluster is at level {current}, which only an "
            "upgrade raises",
        )
    concerned = _concerned(image, supported)
    absent = [it for it in concerned if it not in supported]
    too_old = [it for it in concerned if supported.get(it, level) < level]
    if level == current or not (absent or too_old):
        return None
    wrong: list[str] = []
    if too_old:
        levels = ", ".join(f"broker {it} supports up to {supported[it]}" for it in too_old)
        wrong.append(f"{levels}: upgrade Tidemill there and restart it")
    if absent:
        names = ", ".join(map(str, absent))
        which, it = (f"broker {names} is", "it") if len(absent) == 1 else (f"brokers {names} are", "them")
        wrong.append(f"{which} registered but not live: bring {it} back, or {_instead(image, it)}")
    return Problem(errors.INVALID_UPDATE_VERSION, f"feature level {level} is refused: {'; '.join(wrong)}")


def _instead(image: ClusterImage, it: str) -> str:
    """Return what to do about brokers that never come back.  An older cluster cannot record that one is removed."""
    if image.feature_level >= ELASTIC_CLUSTER:
        return f"remove {it} from the cluster"
    return f"replace {it} by starting Tidemill on an empty directory with the same broker.id"


def _records(image: ClusterImage, level: int, supported: Mapping[BrokerId, int]) -> tuple[Record, ...]:
    told = (
        (broker, recorded_level(level, supported.get(it, broker.level))) for it, broker in sorted(image.brokers.items())
    )
    brokers = tuple(
        BrokerRecord(broker.broker_id, broker.directory_id, broker.endpoints, broker.rack, known)
        for broker, known in told
        if known != broker.level
    )
    return (FeatureRecord(level), *brokers)
