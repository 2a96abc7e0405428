"""Why a broker, or several, cannot start."""


class StartProblem(Exception):
    """The sentence says why and what to do."""
