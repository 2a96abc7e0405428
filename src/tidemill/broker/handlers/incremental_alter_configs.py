"""
IncrementalAlterConfigs (key 44): v0-1

Changes individual settings of topics, brokers and groups: set, delete, append or subtract (KIP-339).  For each
resource, either all changes are applied or none are.
"""

from tidemill.broker.request.altered_configs import refused_response, resource_response
from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.configs import AlteredResource, Change, IncrementalAlterConfigs, Operation
from tidemill.metadata.metadata_records import ConfigResource
from tidemill.model import errors
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending
from tidemill.wire.messages.incremental_alter_configs import Request, Response

ResourceResponse = Response.Resource
OPERATIONS = frozenset(Operation)


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    controller = context.broker.controller
    illegal = [_unknown_operation(resource) for resource in request.resources if not _is_legal(resource)]
    pending: Pending[Response] = Pending()
    command = IncrementalAlterConfigs(
        resources=tuple(_changes(resource) for resource in request.resources if _is_legal(resource)),
        validate_only=request.validate_only,
    )

    def decided(altered: tuple[AlteredResource, ...] | OutcomeUnknown) -> None:
        if altered is OUTCOME_UNKNOWN:
            pending.complete(refused(request, errors.REQUEST_TIMED_OUT))
        else:
            answers = [resource_response(ResourceResponse, it) for it in altered]
            pending.complete(Response(responses=answers + illegal))

    controller.submit(command).then(decided)
    return pending


def _is_legal(resource: Request.Resource) -> bool:
    return all(config.config_operation in OPERATIONS for config in resource.configs)


def _changes(resource: Request.Resource) -> tuple[ConfigResource, tuple[Change, ...]]:
    return ConfigResource(resource.resource_type, resource.resource_name), tuple(
        Change(config.name, Operation(config.config_operation), config.value) for config in resource.configs
    )


def _unknown_operation(resource: Request.Resource) -> ResourceResponse:
    return ResourceResponse(
        error_code=errors.INVALID_REQUEST,
        error_message="unknown config_operation: use 0 (set), 1 (delete), 2 (append) or 3 (subtract)",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def refused(request: Request, error_code: int) -> Response:
    """Return a response that rejects the entire request with `error_code`."""
    return refused_response(Response, request, error_code)
