"""
ShareReceipts (key 10018): v0

Acknowledges records by receipts, for a consumer over HTTP.  The response follows when the decisions are committed.  Not
listed in ApiVersions; the messages are in `peer/share_receipts`.
"""

from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.shares.share_receipts import ShareReceipts
from tidemill.peer.share_receipts import Request


def handle(request: Request, context: RequestContext) -> ShareReceipts:
    return ShareReceipts(context.broker.shares, request)
