"""Unanswered: why a request to another broker got no response, and the error code that reports this to a client."""

from enum import Enum
from typing import Final

from tidemill.model import errors
from tidemill.shard.pending import OutcomeUnknown


class NoController(Enum):
    """
    The type of NO_CONTROLLER and OLDER_CONTROLLER: no controller has handled the request, so it has had no effect.
    """

    NO_CONTROLLER = "no controller"
    OLDER_CONTROLLER = "the controller's version does not know the request"


NO_CONTROLLER: Final = NoController.NO_CONTROLLER
OLDER_CONTROLLER: Final = NoController.OLDER_CONTROLLER
Unanswered = NoController | OutcomeUnknown


def error_code_of(outcome: Unanswered) -> int:
    """Return NOT_CONTROLLER or UNSUPPORTED_VERSION, or REQUEST_TIMED_OUT if the request may have taken effect."""
    if outcome is OLDER_CONTROLLER:
        return errors.UNSUPPORTED_VERSION
    return errors.NOT_CONTROLLER if outcome is NO_CONTROLLER else errors.REQUEST_TIMED_OUT
