"""How many runs of share groups are simulated, and of which kind.

`TIDEMILL_SHARE_SEEDS=5000` simulates 5,000 runs instead of 200, as `make soak` does.
"""

import os
from typing import Final

RUNS: Final = int(os.environ.get("TIDEMILL_SHARE_SEEDS", "200"))
LOTS: Final = 4  # the seeds of a kind are divided among this many tests, so that all cores are used
SHARE: Final = range(RUNS * 12 // 100)
EVENTFUL: Final = range(RUNS * 50 // 100)
LETTER: Final = range(RUNS * 4 // 100)
EVENTFUL_LETTER: Final = range(RUNS * 4 // 100)
INTERRUPTED_LETTER: Final = range(RUNS * 2 // 100)
ORDERED: Final = range(RUNS * 6 // 100)  # of each of four settings
OFFSET: Final = range(RUNS * 4 // 100)
