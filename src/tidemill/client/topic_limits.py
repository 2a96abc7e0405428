"""Looks up configurations of topics, such as the largest batch that a topic accepts."""

from collections.abc import Collection
from typing import Final

from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import ClientError
from tidemill.model import errors
from tidemill.wire.messages import describe_configs

KEY: Final = "max.message.bytes"
_TOPIC: Final = 2  # the resource type of topics in DescribeConfigs


def batch_bytes_max(cluster: ClusterMetadata, topics: Collection[str]) -> dict[str, int]:
    """
    Return `max.message.bytes` of each topic, so that the caller can refuse larger records before they are sent.

    A topic is missing from the result if the broker does not report the value; then only the broker refuses batches
    that are too large.
    """
    return {
        topic: int(values[KEY])
        for topic, values in configurations(cluster, topics, [KEY]).items()
        if values.get(KEY, "").isdecimal()
    }


def configurations(
    cluster: ClusterMetadata, topics: Collection[str], keys: Collection[str]
) -> dict[str, dict[str, str]]:
    """
    Return the values of these keys by topic.

    A topic or a key is missing from the result if the broker does not report it, for example because the client lacks
    the permission DESCRIBE_CONFIGS, or if no broker responds.
    """
    try:
        return reported(cluster, topics, keys)
    except ClientError:
        return {}


def reported(cluster: ClusterMetadata, topics: Collection[str], keys: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the same as `configurations`.  Raise ClientError if no broker responds."""
    resources = [
        describe_configs.Request.Resource(resource_type=_TOPIC, resource_name=topic, configuration_keys=list(keys))
        for topic in topics
    ]

    def ask(connection: BrokerConnection) -> describe_configs.Response:
        request = describe_configs.Request(resources=resources)
        response: describe_configs.Response = connection.request(describe_configs.API, request)
        return response

    answered = cluster.ask_any(ask)
    return {
        resource.resource_name: {
            config.name: config.value for config in resource.configs if config.name in keys and config.value is not None
        }
        for resource in answered.results
        if resource.error_code == errors.NONE
    }
