"""How many runs of timer topics are simulated, and of which kind.

`TIDEMILL_TIMER_SEEDS=5000` simulates 5,000 runs instead of 200, as `make soak` does.
"""

import os
from typing import Final

RUNS: Final = int(os.environ.get("TIDEMILL_TIMER_SEEDS", "200"))
LOTS: Final = 4  # the seeds of a kind are divided among this many tests, so that all cores are used
BRIEF: Final = range(RUNS * 58 // 100)
ANY: Final = range(RUNS * 10 // 100)
EVENTFUL: Final = range(RUNS * 26 // 100)
CONTENDED: Final = range(RUNS * 4 // 100)
SELECTING: Final = range(RUNS * 2 // 100)
