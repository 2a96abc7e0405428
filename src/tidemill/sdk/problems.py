"""The exceptions of the client."""

from collections.abc import Mapping


class TidemillError(Exception):
    """The common type of the client's exceptions."""


class BrokersUnavailable(TidemillError):
    """No broker answered in time.  A request that was sent may have had its effect."""


class OutcomeUnknown(BrokersUnavailable):
    """The response to a request is lost that must not be sent again: it may have had its effect."""


class RequestRefused(TidemillError):
    """
    A broker refused a request.

    `status` is the HTTP status, and `fields` are those of the problem document (RFC 9457) beside its detail.
    """

    def __init__(self, status: int, detail: str, fields: Mapping[str, object]) -> None:
        super().__init__(detail)
        self.status = status
        self.fields = fields


class SendFailed(TidemillError):
    """A record was not written, or it is not known whether it was."""


class LeaseExpired(TidemillError):
    """The lease of a message has ended: the message is delivered again, or another consumer has decided about it."""
