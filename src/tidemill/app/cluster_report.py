"""A broker's view of its cluster as JSON objects; `docs/http.md` documents the fields."""

from collections import Counter
from typing import Any

from tidemill.broker.broker import Broker
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.metadata.image import Shard as PlannedShard
from tidemill.model.broker_id import ReplicaKey, broker_ids
from tidemill.model.shard import METADATA_SHARD
from tidemill.shard.shard import Shard

Json = dict[str, Any]


class ClusterReport:
    """This broker's own view of its cluster at the time of a request; implements `http.cluster_api.ClusterState`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def cluster(self) -> Json:
        broker, image = self._broker, self._broker.image
        controller = broker.cluster.leaders.leader(METADATA_SHARD)
        return {
            "answered_by": broker.broker_id,
            "cluster_id": image.cluster_id,
            "feature_level": image.feature_level,
            "controller": None if controller is None else controller.broker_id,
            "brokers": len(image.brokers),
            "brokers_live": sum(broker_id in image.brokers for broker_id in broker.cluster.live()),
            "topics": sum(not topic.is_internal for topic in image.topics.values()),
            "internal_topics": sum(topic.is_internal for topic in image.topics.values()),
            "shards": len(image.shards),
        }

    def brokers(self) -> Json:
        image = self._broker.image
        led = self._broker.cluster.leaders.led_counts()
        levels = self._broker.cluster.supported_levels()
        carried = Counter(voter for shard in image.shards.values() for voter in shard.replicas)
        rows = []
        for broker_id, broker in sorted(image.brokers.items()):
            age_ms = self._heartbeat_age_ms(broker.voter)
            rows.append(
                {
                    "broker_id": broker_id,
                    "directory_id": broker.directory_id.hex(),
                    "rack": broker.rack,
                    "is_registered": broker.is_registered,
                    "endpoints": [{"name": e.name, "host": e.host, "port": e.port} for e in broker.endpoints],
                    "is_live": self._is_alive(broker.voter),
                    "presence": broker.presence.name.lower(),
                    "drain": broker.drain.name.lower(),
                    # Below the level of elastic clusters, the metadata does not tell what a broker supports.
                    "feature_level": levels.get(
                        broker_id, broker.level if image.feature_level >= ELASTIC_CLUSTER else None
                    ),
                    "heartbeat_age_ms": age_ms,
                    "heard_by": self._broker.cluster.heard_by(broker_id),
                    "silent_ms": self._broker.cluster.silent_ms(broker_id),
                    "shards_led": led[broker_id],
                    "shards_carried": carried[broker.voter],
                }
            )
        return {"answered_by": self._broker.broker_id, "brokers": rows}

    def shards(self, *, topic: str | None, leader: int | None, after: int, limit: int) -> Json | None:
        image, leaders = self._broker.image, self._broker.cluster.leaders
        if topic is None:
            shard_ids = sorted(image.shards)
        elif (known := image.topic(topic)) is not None:
            shard_ids = sorted(known.shard_ids)
        else:
            return None
        rows: list[Json] = []
        for shard_id in shard_ids:
            if shard_id <= after:
                continue
            led_by = leaders.leader(shard_id)
            if leader is not None and (led_by is None or led_by.broker_id != leader):
                continue
            if len(rows) == limit:
                return self._page(rows, rows[-1]["shard_id"])
            planned = image.shards[shard_id]
            rows.append(
                {
                    "shard_id": shard_id,
                    "topic": image.topics_by_id[planned.topic_id].name,
                    "first_partition": planned.first_partition,
                    "partition_count": planned.partition_count,
                    "replicas": broker_ids(planned.replicas),
                    "leader": None if led_by is None else led_by.broker_id,
                    "term": None if led_by is None else led_by.term,
                    **self._local_fields(planned),
                }
            )
        return self._page(rows, None)

    def _page(self, rows: list[Json], next_after: int | None) -> Json:
        return {"answered_by": self._broker.broker_id, "shards": rows, "next_after": next_after}

    def _local_fields(self, planned: PlannedShard) -> Json:
        """Return the field `damage`, which only a broker with a replica of the shard knows, and the field `led_here`,
        which only the shard's leader knows.
        """
        shard = self._broker.shard_table.shards.get(planned.shard_id)
        return {
            "damage": None if shard is None else shard.log.damage,
            "led_here": None if shard is None or not shard.is_serving else self._led(shard),
        }

    def _led(self, shard: Shard) -> Json:
        status = shard.replica.status()
        membership = status.membership
        matches = {**shard.replica.matches, shard.replica.me: status.durable_index}
        # A match index of 0 means that the member has acknowledged nothing in this term, not that its disk is empty.
        known = {member: index or None for member, index in matches.items()}
        return {
            "voters": broker_ids(membership.voters),
            "learners": broker_ids(membership.learners),
            "commit_index": status.commit_index,
            "last_index": status.last_index,
            "size_bytes": sum(partition.log.size_bytes for partition in shard.partitions.values()),
            "members": [
                {
                    "broker_id": member.broker_id,
                    "is_live": self._is_alive(member),
                    "match_index": (match_index := known.get(member)),
                    "lag_rows": None if match_index is None else status.last_index - match_index,
                }
                for member in membership.members
            ],
        }

    def _is_alive(self, voter: ReplicaKey) -> bool:
        return voter == self._broker.identity.voter or self._broker.cluster.is_alive(voter)

    def _heartbeat_age_ms(self, voter: ReplicaKey) -> int | None:
        return 0 if voter == self._broker.identity.voter else self._broker.cluster.peers.heartbeat_age_ms(voter)
