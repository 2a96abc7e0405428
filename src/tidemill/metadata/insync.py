"""Checks that min.insync.replicas does not exceed the replication factor of a topic.

If it did, no acks=all write to the topic could ever succeed.  Kafka creates such a topic and answers every acks=all
write with NOT_ENOUGH_REPLICAS; Tidemill rejects the request that would create the topic or change its configuration.
"""

from collections.abc import Mapping
from typing import Final

from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import BROKER_RESOURCE
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_keys import TOPIC_KEYS
from tidemill.model.config_resolution import NOTHING, resolve_topic
from tidemill.model.errors import KafkaError

MIN_INSYNC: Final = "min.insync.replicas"
NO_BROKER: Final = BrokerId(-1)  # an id that no broker has, so it has no dynamic settings of its own


def default_min_insync(image: ClusterImage, static: Mapping[str, str]) -> int:
    """Return the min.insync.replicas of a topic that has no setting of its own.

    If brokers have different values, the largest is returned.
    """
    named = [BrokerId(int(name)) for kind, name in image.configs if kind == BROKER_RESOURCE and name]
    layers = [image.broker_layers(broker_id, static) for broker_id in (NO_BROKER, *named)]
    return max(int(resolve_topic(TOPIC_KEYS[MIN_INSYNC], NOTHING, it).value or "1") for it in layers)


def check_min_insync(
    topic: str, settings: Mapping[str, str], default: int, replication_factor: int, *, is_new: bool = True
) -> None:
    """Check one topic, which has `settings` of its own and otherwise inherits `default` as min.insync.replicas.

    Raises KafkaError if min.insync.replicas exceeds the replication factor.
    """
    wanted = int(settings[MIN_INSYNC]) if MIN_INSYNC in settings else default
    if wanted <= replication_factor:
        return
    counted = "1 replica" if replication_factor == 1 else f"{replication_factor} replicas"
    if MIN_INSYNC in settings:
        more = f", or create it with replication factor {wanted}" if is_new else ""
        raise KafkaError(
            errors.INVALID_CONFIG,
            f"{MIN_INSYNC}={wanted} is refused: topic {topic!r} has {counted}; set {replication_factor} or less{more}",
        )
    if not is_new:
        raise KafkaError(
            errors.INVALID_CONFIG,
            f"{MIN_INSYNC}=(default) is refused: the cluster's default is {wanted}, but topic {topic!r} has {counted}; "
            f"set {replication_factor} or less",
        )
    raise KafkaError(
        errors.INVALID_REPLICATION_FACTOR,
        f"replication factor {replication_factor} is refused: the cluster's default is {MIN_INSYNC}={wanted}, so "
        f"every acks=all write to topic {topic!r} would fail; create it with replication factor {wanted}, or with "
        f"{MIN_INSYNC}={replication_factor} or less",
    )


def check_default_min_insync(image: ClusterImage, wanted: int) -> None:
    """Check a new cluster-wide default of min.insync.replicas.

    Raises KafkaError if a topic that inherits the default has fewer than `wanted` replicas.
    """
    small = [
        name
        for name, topic in sorted(image.topics.items())
        if not topic.is_internal
        and MIN_INSYNC not in image.topic_overrides(name)
        and image.replication_factor(topic) < wanted
    ]
    if small:
        raise KafkaError(
            errors.INVALID_CONFIG,
            f"{MIN_INSYNC}={wanted} is refused as a default: {len(small)} topic(s) without a setting of their own have "
            f"fewer replicas, so every acks=all write to them would fail (the first is {small[0]!r}, with "
            f"{image.replication_factor(image.topics[small[0]])}); set {MIN_INSYNC} on those topics first",
        )


def replication_warning(topic: str, replication_factor: int) -> list[str]:
    if replication_factor != 2:
        return []
    return [
        f"topic {topic!r} has 2 replicas: a majority of two is both, so writes stop while either broker is down; "
        "use replication factor 3 to tolerate the loss of one broker"
    ]
