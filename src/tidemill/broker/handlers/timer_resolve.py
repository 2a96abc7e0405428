"""
TimerResolve (key 10019): v0

Cancels records that wait in a partition of a timer topic, or changes when they are due.  Not listed in ApiVersions; the
messages are in `peer/timer_resolve`.
"""

from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.timers.timer_requests import TimerResolution
from tidemill.peer.timer_resolve import Request


def handle(request: Request, context: RequestContext) -> TimerResolution:
    return TimerResolution(context.broker.timers, request)
