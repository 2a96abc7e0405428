"""
AlterConfigs (key 33): v0-2

Replaces all settings of a resource: any setting that the request does not name is reset to its default.  KIP-339
replaced this API with IncrementalAlterConfigs, but some clients still use it.
"""

from tidemill.broker.request.altered_configs import refused_response, resource_response
from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.configs import AlterConfigs, AlteredResource
from tidemill.metadata.metadata_records import ConfigResource
from tidemill.model import errors
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending
from tidemill.wire.messages.alter_configs import Request, Response

ResourceResponse = Response.Resource


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    controller = context.broker.controller
    pending: Pending[Response] = Pending()
    command = AlterConfigs(
        resources=tuple(
            (
                ConfigResource(resource.resource_type, resource.resource_name),
                tuple((config.name, config.value) for config in resource.configs),
            )
            for resource in request.resources
        ),
        validate_only=request.validate_only,
    )

    def decided(altered: tuple[AlteredResource, ...] | OutcomeUnknown) -> None:
        if altered is OUTCOME_UNKNOWN:
            pending.complete(refused(request, errors.REQUEST_TIMED_OUT))
        else:
            pending.complete(Response(responses=[resource_response(ResourceResponse, it) for it in altered]))

    controller.submit(command).then(decided)
    return pending


def refused(request: Request, error_code: int) -> Response:
    """Return a response that rejects the entire request with `error_code`."""
    return refused_response(Response, request, error_code)
