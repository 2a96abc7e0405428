"""Looks up the largest batch that a topic accepts, so that records above it are refused before they are sent."""

from collections.abc import Collection
from typing import Final

from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import ClientError
from tidemill.model import errors
from tidemill.wire.messages import describe_configs

KEY: Final = "max.message.bytes"
_TOPIC: Final = 2  # the type of a resource in DescribeConfigs


def batch_bytes_max(cluster: ClusterMetadata, topics: Collection[str]) -> dict[str, int]:
    """
    Return `max.message.bytes` of each topic.

    A topic is missing from the result if the broker does not tell, for example without the permission
    DESCRIBE_CONFIGS; then only the broker refuses batches that are too large.
    """
    resources = [
        describe_configs.Request.Resource(resource_type=_TOPIC, resource_name=topic, configuration_keys=[KEY])
        for topic in topics
    ]

    def ask(connection: BrokerConnection) -> describe_configs.Response:
        request = describe_configs.Request(resources=resources)
        response: describe_configs.Response = connection.request(describe_configs.API, request)
        return response

    try:
        answered = cluster.ask_any(ask)
    except ClientError:
        return {}
    return {
        resource.resource_name: int(config.value)
        for resource in answered.results
        if resource.error_code == errors.NONE
        for config in resource.configs
        if config.name == KEY and config.value is not None and config.value.isdecimal()
    }
