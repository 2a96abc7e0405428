"""
ShareReceive (key 10016): v0

Acquires records of one partition for a consumer without a share session.  Waits up to max_wait_ms for a record.  Not
listed in ApiVersions; the messages are in `peer/share_receive`.
"""

from tidemill.broker.request.delayed_share_fetch import DelayedShareFetch
from tidemill.broker.request.lone_consumer import LoneConsumer
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.peer.share_receive import Request, Response
from tidemill.share.acquisition import FetchLimits


def handle(request: Request, context: RequestContext) -> Response | DelayedShareFetch[Response]:
    if not request.group_id or not request.member_id or min(request.max_records, request.max_bytes) < 1:
        return Response(
            error_code=errors.INVALID_REQUEST,
            error_message="a ShareReceive needs a group id, a member id, max_records >= 1 and max_bytes >= 1",
        )
    consumer = LoneConsumer(context.broker.shares, request)
    limits = FetchLimits(records_max=request.max_records, batch_size=request.max_records, is_strict=True)
    fetch: DelayedShareFetch[Response] = DelayedShareFetch(
        context,
        consumer,
        [consumer.key],
        limits,
        min_bytes=1,
        max_bytes=request.max_bytes,
        max_wait_ms=request.max_wait_ms,
    )
    fetch.begin()
    return fetch
