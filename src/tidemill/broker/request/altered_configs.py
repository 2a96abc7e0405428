"""Builds the responses of AlterConfigs and IncrementalAlterConfigs, which describe resources in the same way."""

from typing import TypeVar

from tidemill.metadata.configs import AlteredResource
from tidemill.model import errors
from tidemill.wire.messages import alter_configs, incremental_alter_configs

Request = alter_configs.Request | incremental_alter_configs.Request
Response = TypeVar("Response", alter_configs.Response, incremental_alter_configs.Response)
ResourceResponse = TypeVar(
    "ResourceResponse", alter_configs.Response.Resource, incremental_alter_configs.Response.Resource
)


def resource_response(response: type[ResourceResponse], altered: AlteredResource) -> ResourceResponse:
    problem = altered.problem
    return response(
        error_code=errors.NONE if problem is None else problem.error_code,
        error_message=None if problem is None else problem.message,
        resource_type=altered.resource.type,
        resource_name=altered.resource.name,
    )


def refused_response(response: type[Response], request: Request, error_code: int) -> Response:
    """Return a response that rejects the entire request with `error_code`."""
    return response(
        responses=[
            response.Resource(
                error_code=error_code, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            for resource in request.resources
        ]
    )
