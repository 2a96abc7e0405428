"""Every metric in /metrics is counted."""

import re
from pathlib import Path

from tidemill.telemetry.metrics import Metrics
from tidemill.telemetry.prometheus import COUNTERS, GAUGES

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tidemill"


def test_every_metric_is_counted_and_rendered() -> None:
    """
    A counter that is never incremented would misleadingly be 0.
    """
    code = "\n".join(path.read_text() for path in SOURCE.rglob("*.py") if path.parent.name != "telemetry")
    counted = set(re.findall(r"metrics\.(\w+) (?:\+=|-=|=) ", code))

    assert sorted([*COUNTERS, *GAUGES]) == sorted({*Metrics.__slots__} - {"apis"})
    assert [] == sorted({*COUNTERS, *GAUGES} - counted)
