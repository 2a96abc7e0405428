"""
ShareFetch (key 78): v1-2

Acquires available records of partitions for a member of a share group, and acknowledges records that it holds
(KIP-932).  Waits up to max_wait_ms for min_bytes to become available.  Only records whose bytes are in the response are
acquired.

v2  share_acquire_mode: limits the records strictly (KIP-1206); is_renew_ack: renews locks, and fetches nothing
    (KIP-1222)
"""

from typing import Final

from tidemill.broker.request.delayed_share_fetch import DelayedShareFetch
from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.request.session_consumer import SessionConsumer, share_fetch_response
from tidemill.broker.request.share_acknowledgements import ShareAcknowledgements, has_acknowledgements
from tidemill.broker.shares.led_share import ShareKey
from tidemill.model import errors
from tidemill.model.dead_letters import check_has_consumers
from tidemill.model.errors import KafkaError
from tidemill.shard.pending import Pending
from tidemill.share.acknowledgement import AcknowledgementRefused, check_renewal
from tidemill.share.acquisition import FetchLimits
from tidemill.share.share_session import FINAL_EPOCH, INITIAL_EPOCH, ShareSession
from tidemill.wire.messages.share_fetch import Request, Response

RECORD_LIMIT: Final = 1  # the acquire mode in which max_records is strict (KIP-1206)


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    try:
        session = _session(request, context)
    except KafkaError as refused:
        return _refused(request, context, refused)
    shares = context.broker.shares
    acknowledgements = ShareAcknowledgements(shares, session, request.topics, may_renew=request.is_renew_ack)
    if request.share_session_epoch == INITIAL_EPOCH:
        shares.session_opened(ShareKey(session.group, *key) for key in session.wanted)
    elif request.share_session_epoch == FINAL_EPOCH:
        shares.release(session)
    if request.share_session_epoch == FINAL_EPOCH or request.is_renew_ack:
        pending: Pending[Response] = Pending()
        acknowledgements.then(
            lambda _: pending.complete(share_fetch_response(context, session, acknowledgements, {}, {}))
        )
        return pending
    fetch: DelayedShareFetch[Response] = DelayedShareFetch(
        context,
        SessionConsumer(context, session, acknowledgements),
        [ShareKey(session.group, *key) for key in session.rotated()],
        FetchLimits(
            records_max=request.max_records,
            batch_size=max(request.batch_size, 1),
            is_strict=request.share_acquire_mode == RECORD_LIMIT,
        ),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        max_wait_ms=request.max_wait_ms,
    )
    fetch.begin()
    return fetch


def _session(request: Request, context: RequestContext) -> ShareSession:
    """Return the request's session, after the changes in the request.  Raise KafkaError if the request is invalid."""
    if not request.group_id or not request.member_id:
        raise KafkaError(errors.INVALID_REQUEST, "a ShareFetch needs a group id and a member id")
    check_has_consumers(request.group_id)
    if request.is_renew_ack:
        try:
            check_renewal(
                max_wait_ms=request.max_wait_ms,
                min_bytes=request.min_bytes,
                max_bytes=request.max_bytes,
                max_records=request.max_records,
            )
        except AcknowledgementRefused as refused:
            raise KafkaError(refused.code, str(refused)) from None
    return context.broker.shares.sessions.fetch(
        request.group_id,
        request.member_id,
        request.share_session_epoch,
        connection=context.connection,
        wanted=[(topic.topic_id, it.partition_index) for topic in request.topics for it in topic.partitions],
        forgotten=[(topic.topic_id, number) for topic in request.forgotten_topics_data for number in topic.partitions],
        has_acknowledgements=has_acknowledgements(request.topics),
    )


def _refused(request: Request, context: RequestContext, refused: KafkaError) -> Response | Pending[Response]:
    """
    Return the response that refuses a request.  If the broker has too many sessions, it comes after max_wait_ms, so
    that the client does not try again at once.
    """
    response = Response(
        error_code=refused.error_code,
        error_message=refused.message,
        acquisition_lock_timeout_ms=0,
        responses=(),
        node_endpoints=(),
    )
    if refused.error_code != errors.SHARE_SESSION_LIMIT_REACHED or request.max_wait_ms <= 0:
        return response
    pending: Pending[Response] = Pending()
    context.broker.machine.call_later(request.max_wait_ms / 1000, lambda: pending.complete(response))
    return pending
