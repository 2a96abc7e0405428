"""Decides whether the cluster counts on a broker, and what an operator wants it to give up.

The two are recorded together, and each command keeps the other one's half.
"""

from dataclasses import dataclass

from tidemill.metadata.feature_levels import ELASTIC_CLUSTER, refusal_below
from tidemill.metadata.image import Broker
from tidemill.metadata.metadata_records import BrokerStateRecord
from tidemill.metadata.result import DecisionContext, Problem, Result
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, broker_list
from tidemill.model.broker_state import Drain, Presence


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPresence:
    """Record that a broker is silent, gone, or back."""

    broker_id: BrokerId
    presence: Presence


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDrain:
    """Drain a broker of its leaders or of all its replicas, or end that."""

    broker_id: BrokerId
    drain: Drain


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChanged:
    problem: Problem | None = None


def set_presence(context: DecisionContext, command: SetPresence) -> Result[BrokerChanged]:
    broker = known_broker(context, command.broker_id, "recording that brokers are silent")
    if isinstance(broker, Problem):
        return Result((), BrokerChanged(problem=broker))
    return _changed(broker, command.presence, broker.drain)


def set_drain(context: DecisionContext, command: SetDrain) -> Result[BrokerChanged]:
    broker = known_broker(context, command.broker_id, "draining brokers")
    if isinstance(broker, Problem):
        return Result((), BrokerChanged(problem=broker))
    return _changed(broker, broker.presence, command.drain)


def known_broker(context: DecisionContext, broker_id: BrokerId, action: str) -> Broker | Problem:
    """Return a broker of the cluster, or why `action` is refused: the cluster's level is too low, or it has no such
    broker.
    """
    image = context.image
    below = refusal_below(ELASTIC_CLUSTER, image.feature_level, action)
    if below is not None:
        return Problem(errors.UNSUPPORTED_VERSION, below)
    broker = image.brokers.get(broker_id)
    if broker is None:
        brokers = broker_list(it.voter for _, it in sorted(image.brokers.items()))
        why = f"broker {broker_id} is not in this cluster; its brokers are {brokers}"
        return Problem(errors.BROKER_ID_NOT_REGISTERED, why)
    return broker


def _changed(broker: Broker, presence: Presence, drain: Drain) -> Result[BrokerChanged]:
    if (presence, drain) == (broker.presence, broker.drain):
        return Result((), BrokerChanged())
    return Result((BrokerStateRecord(broker.broker_id, presence, drain),), BrokerChanged())
