"""The exception for a broker, or a group of brokers, that cannot start."""


class StartProblem(Exception):
    """A broker cannot start; the message says why and what to do."""
