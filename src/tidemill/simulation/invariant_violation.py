"""The error that a simulation raises when it finds an invariant broken."""


class InvariantViolation(AssertionError):
    """An invariant does not hold.  The message says which one, and when."""
