"""
UpdateFeatures (key 57): v0-2

Raises the cluster's feature level, which clients know as the feature tidemill.level.  Every broker forwards the request
to the controller.  All updates of a request are carried out, or none.

The level is never lowered, and a downgrade never raises it.  The levels of other features are fixed: an update to the
level that a feature has is accepted, because it changes nothing.

v1  upgrade_type, validate_only (KIP-778)
v2  no results
"""

from collections.abc import Sequence
from typing import Final

from tidemill.broker.handlers.api_versions import SHARE_VERSION, SHARE_VERSION_LEVEL
from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER, FEATURE_NAME
from tidemill.metadata.features import UpdatedFeatures, UpdateFeatures
from tidemill.metadata.result import Problem
from tidemill.model import errors
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending
from tidemill.wire.messages.update_features import Request, Response

SINCE_LEVEL: Final = ELASTIC_CLUSTER
FIXED: Final = {SHARE_VERSION: SHARE_VERSION_LEVEL}
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3  # types of an update, from version 1 on
RESULTS_UNTIL: Final = 2  # from this version on, a response has no results


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    problem = _problem(request.feature_updates)
    if problem is not None:
        return _refused(problem)
    broker = context.broker
    names = [update.feature for update in request.feature_updates]
    update = next((it for it in request.feature_updates if it.feature == FEATURE_NAME), None)
    if update is None:
        return _done(names, context.version)
    pending: Pending[Response] = Pending()

    def decided(updated: UpdatedFeatures | OutcomeUnknown) -> None:
        if updated is OUTCOME_UNKNOWN:
            pending.complete(refused(request, errors.REQUEST_TIMED_OUT))
        elif updated.problem is not None:
            pending.complete(_refused(updated.problem))
        else:
            pending.complete(_done(names, context.version))

    command = UpdateFeatures(
        level=update.max_version_level,
        supported=broker.cluster.supported_levels(),
        may_raise=update.upgrade_type == UPGRADE and not update.allow_downgrade,
        validate_only=request.validate_only,
    )
    broker.controller.submit(command).then(decided)
    return pending


def _problem(updates: Sequence[Request.Update]) -> Problem | None:
    """Return why the updates are refused, apart from the level of the cluster."""
    names = [update.feature for update in updates]
    for update in updates:
        name, level = update.feature, update.max_version_level
        if names.count(name) > 1:
            return Problem(errors.INVALID_REQUEST, f"feature {name[:100]} is named more than once")
        if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            why = f"upgrade type {update.upgrade_type} of feature {name[:100]} is unknown; the types are 1, 2 and 3"
            return Problem(errors.INVALID_UPDATE_VERSION, why)
        if name == FEATURE_NAME or FIXED.get(name) == level:
            continue
        if name in FIXED:
            why = f"feature {name} is fixed at level {FIXED[name]}; level {level} is refused"
            return Problem(errors.INVALID_UPDATE_VERSION, why)
        known = ", ".join((FEATURE_NAME, *FIXED))
        return Problem(errors.INVALID_UPDATE_VERSION, f"feature {name[:100]} is unknown; the features are {known}")
    return None


def _done(names: Sequence[str], version: int) -> Response:
    has_results = version < RESULTS_UNTIL
    results = [Response.Result(feature=name, error_code=errors.NONE) for name in names] if has_results else []
    return Response(error_code=errors.NONE, results=results)


def _refused(problem: Problem) -> Response:
    return Response(error_code=problem.error_code, error_message=problem.message)


def refused(_: Request, error_code: int) -> Response:
    """Return a response that rejects the entire request with `error_code`."""
    is_older = error_code == errors.UNSUPPORTED_VERSION
    why = "the controller runs a version of Tidemill without feature levels: upgrade all brokers first"
    return Response(error_code=error_code, error_message=why if is_older else None)
