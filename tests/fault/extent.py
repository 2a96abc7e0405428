"""How much of the faults a run takes: few in the suite, all with TIDEMILL_FAULTS=all (as `make soak` sets it)."""

import os

import pytest

IS_WHOLE = os.environ.get("TIDEMILL_FAULTS") == "all"
JUDGED_MIN = 50  # pauses, before their p99 says anything
SLACK = 1 if IS_WHOLE else 10  # what a limit of seconds is multiplied with: a suite shares its machine


def times(short: int, whole: int) -> int:
    return whole if IS_WHOLE else short


soak_only = pytest.mark.skipif(not IS_WHOLE, reason="for `make soak`: the suite has its likes")
