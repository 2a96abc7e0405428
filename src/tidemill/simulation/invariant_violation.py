"""The error of every simulation that finds a rule broken."""


class InvariantViolation(AssertionError):
    """An invariant does not hold.  The message says which one, and when."""
