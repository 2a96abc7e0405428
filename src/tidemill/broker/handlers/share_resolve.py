"""
ShareResolve (key 10015): v0

Acknowledges records for a consumer without a share session, or for an operator.  The response follows when the
decision is committed.  Not listed in ApiVersions; the messages are in `peer/share_resolve`.
"""

from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.shares.share_resolutions import ShareResolution
from tidemill.peer.share_resolve import Request


def handle(request: Request, context: RequestContext) -> ShareResolution:
    return ShareResolution(context.broker.shares, request)
