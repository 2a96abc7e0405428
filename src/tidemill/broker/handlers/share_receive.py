"""
ShareReceive (key 10016): v0

Acquires records of one partition for a consumer without a share session.  Waits up to max_wait_ms for a record.  Not
listed in ApiVersions; the messages are in `peer/share_receive`.
"""

from typing import Final

from tidemill.broker.request.delayed_share_fetch import DelayedShareFetch
from tidemill.broker.request.lone_consumer import Held, LoneConsumer
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.model.dead_letters import check_has_consumers
from tidemill.model.errors import KafkaError
from tidemill.peer.share_receive import Request, Response
from tidemill.share.acknowledgement import AcknowledgementRefused
from tidemill.share.acquisition import FetchLimits

_READ_BYTES_MAX: Final = 4 << 20  # what is read, to acquire its records, for a response without their bytes


def handle(request: Request, context: RequestContext) -> Response | Held | DelayedShareFetch[Response]:
    if not request.group_id or not request.member_id or min(request.max_records, request.max_bytes) < 0:
        return Response(
            error_code=errors.INVALID_REQUEST,
            error_message="a ShareReceive needs a group id, a member id, max_records >= 0 and max_bytes >= 0",
        )
    try:
        check_has_consumers(request.group_id)
        consumer = LoneConsumer(context.broker.shares, request)
    except KafkaError as refused:
        return Response(error_code=refused.error_code, error_message=refused.message)
    except AcknowledgementRefused as refused:
        return Response(error_code=refused.code, error_message=str(refused))
    if request.max_records == 0:
        return consumer.held()
    limits = FetchLimits(records_max=request.max_records, batch_size=request.max_records, is_strict=True)
    fetch: DelayedShareFetch[Response] = DelayedShareFetch(
        context,
        consumer,
        [consumer.key],
        limits,
        min_bytes=1,
        max_bytes=request.max_bytes or _READ_BYTES_MAX,
        max_wait_ms=request.max_wait_ms,
    )
    fetch.begin()
    return fetch
