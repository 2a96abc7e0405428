"""The error that a simulation raises when an invariant is violated."""


class InvariantViolation(AssertionError):
    """An invariant does not hold.  The message names the invariant and the time."""
