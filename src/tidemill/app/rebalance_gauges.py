"""What the controller knows of re-placement, taken at each scrape from what it keeps anyway: no shard is looked at."""

from collections import Counter
from typing import Final

from tidemill.broker.broker import Broker
from tidemill.metadata import image as planned
from tidemill.model.broker_state import Drain, Presence
from tidemill.telemetry.metrics import RebalanceGauges

DRAINING: Final = "draining"
STATES: Final = (*(presence.name.lower() for presence in Presence), DRAINING)


def rebalance_gauges(broker: Broker) -> RebalanceGauges:
    """Return the gauges of the controller; those without values if another broker is the controller."""
    plan = broker.rebalance.plan
    if plan is None:
        return RebalanceGauges()
    # A broker that was admitted and has never registered is none that is missed, unless it has an old one's replicas.
    carrying = broker.rebalance.broker_views()
    known = (it for it in broker.image.brokers.values() if it.is_registered or it.broker_id in carrying)
    counts = Counter(map(_state, known))
    return RebalanceGauges(
        status=plan.status.value,
        moves=broker.rebalance.moves_count,
        missing_bytes=broker.rebalance.missing_bytes,
        refusals=sum(not it.is_wish for it in plan.refusals),
        brokers=[(state, counts[state]) for state in STATES],
    )


def _state(broker: planned.Broker) -> str:
    """Return the one state in which a broker counts: that it is missing is more urgent than that it is drained."""
    if broker.presence is Presence.ACTIVE and broker.drain is not Drain.NONE:
        return DRAINING
    return broker.presence.name.lower()
