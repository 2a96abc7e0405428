"""The exception for brokers that cannot start or stop."""


class StartProblem(Exception):
    """A broker, or a group of brokers, cannot start or stop.  The message says why and what to do."""
