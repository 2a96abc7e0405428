"""How many faults a run takes: few in the test suite, all with TIDEMILL_FAULTS=all, as `make soak` sets it."""

import os

import pytest

IS_WHOLE = os.environ.get("TIDEMILL_FAULTS") == "all"
JUDGED_MIN = 50  # the number of pauses from which a p99 is meaningful
SLACK = 1 if IS_WHOLE else 10  # the factor of every time limit: the suite shares its machine


def times(short: int, whole: int) -> int:
    return whole if IS_WHOLE else short


soak_only = pytest.mark.skipif(not IS_WHOLE, reason="runs with `make soak`; the suite has similar tests")
