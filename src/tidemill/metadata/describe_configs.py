"""Answers DescribeConfigs: returns every key of a resource, with its effective value and the source of that value."""

from collections.abc import Mapping

from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import BROKER_RESOURCE, GROUP_RESOURCE, ConfigResource
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from tidemill.model.config_resolution import (
    NOTHING,
    BrokerLayers,
    Resolved,
    resolve_broker,
    resolve_group,
    resolve_topic,
)
from tidemill.model.errors import KafkaError


def describe_topic(image: ClusterImage, name: str, layers: BrokerLayers) -> tuple[Resolved, ...]:
    """Return all keys of a topic.  Raises KafkaError (UNKNOWN_TOPIC_OR_PARTITION) if the topic does not exist."""
    if image.topic(name) is None:
        raise KafkaError(errors.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    return topic_settings(image.topic_overrides(name), layers)


def topic_settings(overrides: Mapping[str, str], layers: BrokerLayers) -> tuple[Resolved, ...]:
    """Return all keys of a topic whose own settings are `overrides`; the topic need not exist yet."""
    return tuple(
        resolve_topic(key, overrides, layers)
        for key in TOPIC_KEYS.values()
        if not key.internal or key.name in overrides
    )


def describe_broker(image: ClusterImage, broker_id: BrokerId, static: Mapping[str, str]) -> tuple[Resolved, ...]:
    layers = image.broker_layers(broker_id, static)
    return tuple(resolve_broker(key, layers) for key in BROKER_KEYS.values() if not key.internal)


def describe_cluster_default(image: ClusterImage) -> tuple[Resolved, ...]:
    """Return the keys set on the BROKER resource with an empty name.

    As in Kafka, keys without a setting are left out: this resource has no default values of its own.
    """
    settings = image.configs.get(ConfigResource(BROKER_RESOURCE, ""), NOTHING)
    layers = BrokerLayers(dynamic_default=settings)
    return tuple(resolve_broker(BROKER_KEYS[name], layers) for name in sorted(settings) if name in BROKER_KEYS)


def describe_group(image: ClusterImage, group: str, layers: BrokerLayers) -> tuple[Resolved, ...]:
    overrides = image.configs.get(ConfigResource(GROUP_RESOURCE, group), NOTHING)
    return tuple(resolve_group(key, overrides, layers) for key in GROUP_KEYS.values())
