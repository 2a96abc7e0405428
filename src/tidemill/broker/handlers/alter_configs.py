"""
AlterConfigs (key 33): v0-2

Replaces everything that was set for a resource; what is not named goes back to its default.  Clients have been asked
to use IncrementalAlterConfigs since KIP-339, and some do not.
"""

from tidemill.broker.connection.request_context import RequestContext
from tidemill.metadata.configs import AlterConfigs, AlteredResource
from tidemill.metadata.metadata_records import ConfigResource
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.messages.alter_configs import Request, Response

ResourceResponse = Response.Resource


def handle(request: Request, context: RequestContext) -> Response | Pending:
    controller = context.broker.controller
    pending = Pending()
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

    def decided(altered: tuple[AlteredResource, ...] | None) -> None:
        if altered is None:
            pending.complete(refused(request, errors.REQUEST_TIMED_OUT))
        else:
            pending.complete(Response(responses=[_answer(resource) for resource in altered]))

    controller.submit(command).then(decided)
    return pending


def _answer(altered: AlteredResource) -> ResourceResponse:
    problem = altered.problem
    return ResourceResponse(
        error_code=errors.NONE if problem is None else problem.error_code,
        error_message=None if problem is None else problem.message,
        resource_type=altered.resource.type,
        resource_name=altered.resource.name,
    )


def refused(request: Request, error_code: int) -> Response:
    """All of it, for one reason."""
    return Response(
        responses=[
            ResourceResponse(
                error_code=error_code, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            for resource in request.resources
        ]
    )
