"""Plans additional replicas of internal topics as brokers join; the number of replicas never decreases.

The number is odd unless an even number is configured: two replicas tolerate no more failures than one, because a
majority of two is both.  Existing replicas stay at the head of the list, in their order, so no leader moves.
Additional replicas are placed on the least loaded brokers, on other racks where possible.
"""

from typing import Final

from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import ReplicasRecord
from tidemill.metadata.placement import extend
from tidemill.metadata.replicas import candidates_of, loads_of
from tidemill.metadata.result import DecisionContext
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.config_resolution import BrokerLayers, broker_int
from tidemill.model.internal_topics import InternalTopic
from tidemill.model.shard import METADATA_SHARD

METADATA_REPLICAS_MAX: Final = 5  # tolerates two failures; more replicas would slow down every metadata change


def internal_replication_factor(topic: InternalTopic, broker_count: int, layers: BrokerLayers) -> int:
    """Return the number of replicas, at least one, of an internal topic in a cluster of `broker_count` brokers."""
    keys = topic.keys
    wanted = METADATA_REPLICAS_MAX if keys is None else broker_int(layers, keys.replication_factor)
    if broker_count >= wanted:
        return wanted
    return max(1, broker_count - (broker_count % 2 == 0))


def plan_growth(context: DecisionContext) -> tuple[ReplicasRecord, ...]:
    """
    Return a record for each shard of an internal topic that can get more replicas.  New replicas go only to live
    brokers that are neither gone nor drained.
    """
    image = context.image
    candidates = [it for it in candidates_of(context) if it.is_live and it.takes_replicas]
    loads = loads_of(image)
    records = []
    for internal in context.internal_topics:
        topic = image.topic(internal.name)
        for shard in () if topic is None else (image.shards[shard_id] for shard_id in topic.shard_ids):
            usable = {voter.broker_id for voter in shard.replicas} | {c.voter.broker_id for c in candidates}
            wanted = internal_replication_factor(internal, len(usable), context.layers)
            if wanted <= len(shard.replicas):
                continue
            replicas = extend(shard.replicas, wanted, candidates, loads)
            loads.remove(shard.replicas)
            loads.add(replicas)
            previous = shard.replicas if image.feature_level >= ELASTIC_CLUSTER else ()
            records.append(ReplicasRecord(shard.shard_id, replicas, previous, shard.reason))
    return tuple(records)


def metadata_learners(image: ClusterImage) -> tuple[ReplicaKey, ...]:
    """Return the learners of the metadata shard: every admitted broker that is not one of the shard's voters.

    Every broker is a voter or a learner of the metadata shard, because every broker needs the metadata.
    """
    voters = image.shards[METADATA_SHARD].replicas
    return tuple(broker.voter for _, broker in sorted(image.brokers.items()) if broker.voter not in voters)
