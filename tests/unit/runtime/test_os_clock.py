"""The clocks of the operating system."""

from types import SimpleNamespace

import pytest

from tidemill.runtime import os_clock
from tidemill.runtime.os_clock import OsClock


def test_clocks_are_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounded up, a clock would be ahead of the time, so that a timer topic would release records early."""
    now = SimpleNamespace(time_ns=lambda: 1_700_000_000_123_999_999, monotonic_ns=lambda: 5_999_999)
    monkeypatch.setattr(os_clock, "time", now)
    clock = OsClock()

    assert 1_700_000_000_123 == clock.wall_ms()
    assert (5, 5_999) == (clock.monotonic_ms(), clock.monotonic_us())
