"""
TimerList (key 10020): v0

Lists the records that wait in a partition of a timer topic, and counts them.  Not listed in ApiVersions; the
messages are in `peer/timer_list`.
"""

from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.timers.timer_requests import TimerListing
from tidemill.peer.timer_list import Request


def handle(request: Request, context: RequestContext) -> TimerListing:
    return TimerListing(context.broker.timers, request)
