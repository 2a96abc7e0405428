"""Computes rate, lag and remaining time of one phase of a pipeline from the number of processed records."""

from collections import deque
from typing import Final

WINDOW_S: Final = 30.0  # the rate is averaged over this window, so that it drops soon after a source slows down
SAMPLES_MAX: Final = 256  # bounds memory; the oldest samples are dropped


class ProgressMeter:
    """Counts the records of a phase.  Times are in seconds, on the caller's clock."""

    def __init__(self, what: str, total_records: int | None, now: float) -> None:
        self.what = what
        self.total_records = total_records
        self.records = 0
        self.bytes = 0
        self._lag: int | None = None
        self._began = now
        self._samples = deque([(now, 0, 0)], maxlen=SAMPLES_MAX)

    def advance(self, records: int, size: int, lag: int | None, now: float) -> None:
        self.records += records
        self.bytes += size
        self._lag = lag
        self._samples.append((now, self.records, self.bytes))
        while len(self._samples) > 2 and self._samples[1][0] < now - WINDOW_S:
            self._samples.popleft()

    @property
    def lag(self) -> int | None:
        """The number of remaining records; None if unknown."""
        if self._lag is None and self.total_records is not None:
            return max(0, self.total_records - self.records)
        return self._lag

    def rates(self, now: float) -> tuple[float, float]:
        """Return records and bytes per second."""
        began, records, size = self._samples[0]
        seconds = max(now - began, 1e-9)
        return (self.records - records) / seconds, (self.bytes - size) / seconds

    def seconds_left(self, now: float) -> float | None:
        """Return the estimated time for the remaining records at the current rate, in seconds; None if unknown."""
        rate, _ = self.rates(now)
        return self.lag / rate if self.lag is not None and rate > 0 else None

    def seconds(self, now: float) -> float:
        return now - self._began

    def text(self, now: float) -> str:
        """Return counts and rates on one line."""
        of = "" if self.total_records is None else f" of {self.total_records:,}"
        records_per_s, bytes_per_s = self.rates(now)
        left = self.seconds_left(now)
        parts = [f"{self.records:,}{of} records", f"{records_per_s:,.0f} records/s"]
        parts += [f"{bytes_per_s / (1 << 20):,.1f} MiB/s"] if self.bytes else []
        parts += [f"lag {self.lag:,}"] if self.lag is not None else []
        parts += [f"{_clock(left)} left"] if left is not None else []
        return ", ".join(parts)

    def to_json(self, now: float) -> dict[str, object]:
        records_per_s, bytes_per_s = self.rates(now)
        left = self.seconds_left(now)
        return {
            "event": "progress",
            "phase": self.what,
            "records": self.records,
            "total_records": self.total_records,
            "bytes": self.bytes,
            "records_per_s": round(records_per_s),
            "bytes_per_s": round(bytes_per_s),
            "lag": self.lag,
            "seconds_left": None if left is None else round(left, 1),
        }


def _clock(seconds: float) -> str:
    """Return a duration in a readable format: 9 s, 3:05, 2:03:05."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
