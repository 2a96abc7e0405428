"""
DescribeConfigs (key 32): v1-4

Returns the configuration keys of topics, brokers and groups, with their effective values and the source of each value.

v1  synonyms
v3  types and documentation (KIP-569)

A broker describes only itself, because it does not know the static settings of other brokers.  The broker resource with
the name "" represents the cluster-wide defaults.  Broker loggers and client metrics have no configuration.
"""

from collections.abc import Iterable
from typing import Final

from tidemill.broker.broker import Broker
from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.describe_configs import (
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from tidemill.metadata.metadata_records import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from tidemill.model import errors
from tidemill.model.config_resolution import Resolved
from tidemill.model.errors import KafkaError
from tidemill.model.topic import name_problem
from tidemill.wire.messages.describe_configs import Request, Response

RESOURCES_MAX: Final = 2_000  # resources in one request; bounds how long the request blocks the event loop
TOO_MANY: Final = KafkaError(errors.INVALID_REQUEST, f"one request describes at most {RESOURCES_MAX} resources")

ResourceResponse = Response.Resource
Config = ResourceResponse.Config


def handle(request: Request, context: RequestContext) -> Response:
    # Each resource is described only once: names are short and descriptions are long, so repeated names would make the
    # response far larger than the request.
    once = {(asked.resource_type, asked.resource_name): asked for asked in request.resources}
    resources = list(once.values())
    if len(resources) > RESOURCES_MAX:
        return Response(results=[_refused(resource, TOO_MANY) for resource in resources])
    return Response(results=[_described(request, resource, context.broker) for resource in resources])


def _described(request: Request, resource: Request.Resource, broker: Broker) -> ResourceResponse:
    try:
        resolved = _resolved(resource, broker)
    except KafkaError as refused:
        return _refused(resource, refused)
    keys = resource.configuration_keys
    wanted = None if keys is None else set(keys)  # as in Kafka, null means all keys and an empty list means none
    configs = [
        _config(setting, request, is_read_only=_is_read_only(resource, setting))
        for setting in resolved
        if wanted is None or setting.key.name in wanted
    ]
    return ResourceResponse(
        error_code=errors.NONE,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def _refused(resource: Request.Resource, refused: KafkaError) -> ResourceResponse:
    return ResourceResponse(
        error_code=refused.error_code,
        error_message=refused.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )


def _resolved(resource: Request.Resource, broker: Broker) -> Iterable[Resolved]:
    name = resource.resource_name
    image = broker.image
    match resource.resource_type:
        case _ if resource.resource_type == TOPIC_RESOURCE:
            problem = name_problem(name)
            if problem is not None:
                raise KafkaError(errors.INVALID_TOPIC_EXCEPTION, problem)
            return describe_topic(image, name, broker.layers)
        case _ if resource.resource_type == BROKER_RESOURCE:
            if not name:
                return describe_cluster_default(image)
            if name != str(broker.broker_id):
                raise KafkaError(
                    errors.INVALID_REQUEST,
                    f"this is broker {broker.broker_id}; ask broker {name!r} itself, or with an empty name for the "
                    "cluster's default",
                )
            return describe_broker(image, broker.broker_id, broker.static)
        case _ if resource.resource_type == GROUP_RESOURCE:
            if not name:
                raise KafkaError(errors.INVALID_REQUEST, "a group resource needs the name of a group")
            return describe_group(image, name, broker.layers)
    raise KafkaError(
        errors.INVALID_REQUEST,
        f"resource type {resource.resource_type} has no configuration here; topics ({TOPIC_RESOURCE}), "
        f"brokers ({BROKER_RESOURCE}) and groups ({GROUP_RESOURCE}) have",
    )


def _is_read_only(resource: Request.Resource, setting: Resolved) -> bool:
    return resource.resource_type == BROKER_RESOURCE and not setting.key.is_dynamic


def _config(setting: Resolved, request: Request, *, is_read_only: bool) -> Config:
    synonyms = setting.synonyms if request.include_synonyms else ()
    return Config(
        name=setting.key.name,
        value=setting.value,
        read_only=is_read_only,
        config_source=setting.source,
        is_sensitive=setting.key.is_sensitive,
        synonyms=[Config.Synonym(name=it.name, value=it.value, source=it.source) for it in synonyms],
        config_type=setting.key.type,
        documentation=setting.key.documentation if request.include_documentation else None,
    )
