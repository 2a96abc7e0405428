"""
ListConfigResources (key 74): v0-1

Lists the names of the resources of each requested type, or of all types if the request names none: topics, brokers, and
groups that have a setting of their own.  Tidemill has neither client metrics nor broker loggers, so none are listed.
Requests for a type that does not exist are refused with UNSUPPORTED_VERSION, as in Kafka.

v0  client metrics only (ListClientMetricsResources, KIP-714)
v1  resource_types, resource_type (KIP-1142)

The brokers are the same as in Metadata.  The metadata topic is left out, because its configuration cannot be changed.
"""

from collections.abc import Iterable
from typing import Final

from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.metadata_records import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from tidemill.model import errors
from tidemill.model.topic import METADATA_TOPIC
from tidemill.wire.messages.list_config_resources import Request, Response

BROKER_LOGGER_RESOURCE: Final = 8
CLIENT_METRICS_RESOURCE: Final = 16
ALL_TYPES: Final = (
    TOPIC_RESOURCE,
    BROKER_RESOURCE,
    BROKER_LOGGER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
)


def handle(request: Request, context: RequestContext) -> Response:
    supported = (CLIENT_METRICS_RESOURCE,) if context.version == 0 else ALL_TYPES
    types = set(request.resource_types) or set(supported)
    if not types.issubset(supported):
        return Response(error_code=errors.UNSUPPORTED_VERSION, config_resources=())
    resources = [
        Response.ConfigResource(resource_name=name, resource_type=kind)
        for kind in sorted(types)
        for name in _names(kind, context)
    ]
    return Response(error_code=errors.NONE, config_resources=resources)


def _names(kind: int, context: RequestContext) -> Iterable[str]:
    broker = context.broker
    if kind == TOPIC_RESOURCE:
        return sorted(broker.image.topics.keys() - {METADATA_TOPIC})
    if kind == BROKER_RESOURCE:
        known = broker.endpoints_for(context.connection.listener)
        return [str(node_id) for node_id in sorted(it.node_id for it in known)]
    if kind == GROUP_RESOURCE:
        return sorted(resource.name for resource in broker.image.configs if resource.type == GROUP_RESOURCE)
    return ()
