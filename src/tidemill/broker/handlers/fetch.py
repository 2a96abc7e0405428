"""
Fetch (key 1): v4-18

Returns complete batches up to the high watermark, at least one if there are any.  Waits up to max_wait_ms for min_bytes
to become available.

v7   sessions (KIP-227)
v9   current_leader_epoch: stale and unknown epochs are refused (KIP-320)
v11  rack_id: ignored, because followers do not serve reads
v12  last_fetched_epoch, diverging_epoch
v13  topics by id
v15  replica_state: ignored; replicas use the peer protocol, so every caller is served as a client
v16  node_endpoints: the new leaders, if an error is NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH (KIP-951)

read_committed reads up to the high watermark, because there are no transactions.
"""

from tidemill.broker.request.delayed_fetch import DelayedFetch
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.messages.fetch import Request, Response


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    session = context.broker.fetch_sessions.session_for(request, context.broker.clock.monotonic_ms())
    if isinstance(session, int):
        return Response(error_code=session, responses=())
    if request.max_bytes <= 0 or request.max_wait_ms < 0:
        return Response(error_code=errors.INVALID_REQUEST, responses=())
    fetch = DelayedFetch(
        context,
        session,
        bytes_min=request.min_bytes,
        bytes_max=min(request.max_bytes, context.broker.fetch_bytes_max),
    )
    return fetch.begin(request.max_wait_ms)
