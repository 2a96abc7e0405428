"""The number of faults that a run injects: few in the suite, all with TIDEMILL_FAULTS=all, which `make soak` sets."""

import os

import pytest

IS_WHOLE = os.environ.get("TIDEMILL_FAULTS") == "all"
JUDGED_MIN = 50  # the number of pauses that a p99 needs
SLACK = 1 if IS_WHOLE else 10  # factor on time limits: the suite shares its machine with other work


def times(short: int, whole: int) -> int:
    return whole if IS_WHOLE else short


soak_only = pytest.mark.skipif(not IS_WHOLE, reason="runs in `make soak` only: the suite has shorter tests like it")
