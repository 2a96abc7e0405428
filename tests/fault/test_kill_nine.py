"""kill -9 at random moments: no acknowledged record is lost, duplicated or reordered.

TIDEMILL_KILLS sets the number of kills (200 for the long run), TIDEMILL_KILL_SEED repeats the timing of an earlier run,
and TIDEMILL_FAULT_BROKER=kafka tests the harness against Apache Kafka.
"""

import os
import random
from pathlib import Path

import pytest

from tests.fault.history import summary, violations
from tests.fault.kill_nine import Scene, start_kafka, start_tidemill

KILLS = int(os.environ.get("TIDEMILL_KILLS", "20"))
STARTS = {"tidemill": start_tidemill, "kafka": start_kafka}


@pytest.mark.timeout(60 + 10 * KILLS)
def test_a_killed_broker_keeps_what_it_acknowledged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No matter when the process is killed, every acknowledged record is on disk, once and in order."""
    seed = int(os.environ.get("TIDEMILL_KILL_SEED", random.randrange(1 << 32)))
    start = STARTS[os.environ.get("TIDEMILL_FAULT_BROKER", "tidemill")]

    history = Scene(tmp_path, start, seed=seed).run(KILLS)

    with capsys.disabled():
        print(f"\n{KILLS} kills (seed {seed}): {summary(history)}")
    assert violations(history)[:20] == []
    assert all(send.offset is not None for send in history.sends)
