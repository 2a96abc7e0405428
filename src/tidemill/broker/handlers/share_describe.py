"""
ShareDescribe (key 10008): v0

Returns how far a share group has processed partitions that this broker leads.  Not listed in ApiVersions; the messages
are in `peer/share_describe`.
"""

from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.shares.share_descriptions import ShareDescriptions
from tidemill.peer.share_describe import Request


def handle(request: Request, context: RequestContext) -> ShareDescriptions:
    return ShareDescriptions(context.broker.shares, context.broker.machine, request)
