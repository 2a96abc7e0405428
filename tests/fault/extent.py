"""How many faults a run injects: few in the test suite, all if TIDEMILL_FAULTS=all, as `make soak` sets it."""

import os

import pytest

IS_WHOLE = os.environ.get("TIDEMILL_FAULTS") == "all"
JUDGED_MIN = 50  # the smallest number of pauses for which a p99 is meaningful
SLACK = 1 if IS_WHOLE else 10  # factor of time limits: the suite, unlike a soak run, shares the machine with other work


def times(short: int, whole: int) -> int:
    return whole if IS_WHOLE else short


soak_only = pytest.mark.skipif(not IS_WHOLE, reason="runs in `make soak` only: the suite has shorter tests like it")
