"""The HTTP status of a request that a Kafka handler has refused."""

from typing import Final

from tidemill.http.v1.calls import Refused
from tidemill.metadata.image import Topic
from tidemill.model import errors

RETRY_AFTER_S: Final = 1
_STATUSES: Final = {
    errors.BROKER_ID_NOT_REGISTERED: 404,
    errors.GROUP_ID_NOT_FOUND: 409,
    errors.INVALID_CONFIG: 400,
    errors.INVALID_GROUP_ID: 400,
    errors.INVALID_PARTITIONS: 400,
    errors.INVALID_RECORD_STATE: 409,
    errors.INVALID_REPLICA_ASSIGNMENT: 400,
    errors.INVALID_REPLICATION_FACTOR: 400,
    errors.INVALID_REQUEST: 400,
    errors.INVALID_TOPIC_EXCEPTION: 400,
    errors.INVALID_UPDATE_VERSION: 409,
    errors.NON_EMPTY_GROUP: 409,
    errors.NO_REASSIGNMENT_IN_PROGRESS: 409,
    errors.POLICY_VIOLATION: 403,
    errors.TOPIC_ALREADY_EXISTS: 409,
    errors.TOPIC_AUTHORIZATION_FAILED: 403,
    errors.UNKNOWN_TOPIC_OR_PARTITION: 404,
    errors.UNSUPPORTED_VERSION: 409,
}


def check(code: int, message: str | None, about: str) -> None:
    """Raise Refused for an error code: 503 with Retry-After for those that pass.  `about` is the request's subject."""
    if not code:
        return
    name = errors.name(code)
    detail = message or f"{about[:300]}: {name}"
    status = _STATUSES.get(code)
    if status is None:
        raise Refused(503, detail, retry_after_s=RETRY_AFTER_S, error=name)
    raise Refused(status, detail, error=name)


def without_leader(topic: Topic, partition: int) -> Refused:
    """Return the refusal of a request about a partition that has no leader now."""
    return Refused(
        503,
        f"partition {partition} of topic {topic.name} has no leader: try again",
        retry_after_s=RETRY_AFTER_S,
        error=errors.name(errors.LEADER_NOT_AVAILABLE),
    )
