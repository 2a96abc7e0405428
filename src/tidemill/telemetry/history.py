"""The last hour of a broker's traffic, for the charts of the console: a sample every ten seconds, in a ring.

A sample holds rates, not counters, so that a chart needs no arithmetic.  An hour of samples takes 25 KB.
"""

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import nan
from typing import Final

from tidemill.telemetry.histogram import LATENCY_BOUNDS_MS
from tidemill.telemetry.metrics import Metrics

SAMPLE_MS: Final = 10_000
SAMPLES_MAX: Final = 360  # an hour; then the oldest sample is dropped
RATES: Final = ("produce_bytes", "fetch_bytes", "produce_records", "journal_bytes")  # counters of `Metrics`
PRODUCE: Final = 0  # the API key of Produce


class History:
    """The samples of one broker.  `tick` may be called as often as desired; it takes a sample only when one is due."""

    def __init__(self, metrics: Metrics, *, monotonic_ms: Callable[[], int], wall_ms: Callable[[], int]) -> None:
        self._metrics = metrics
        self._monotonic_ms = monotonic_ms
        self._wall_ms = wall_ms
        self._columns = {
            name: array("d") for name in ("time_s", *RATES, "produce_requests", "latency_ms_p50", "latency_ms_p99")
        }
        self._sampled_at = monotonic_ms()
        self._counters = self._read_counters()
        self._latencies = self._read_latencies()

    def tick(self) -> None:
        """Take a sample if the last one is old enough."""
        now_ms = self._monotonic_ms()
        elapsed_ms = now_ms - self._sampled_at
        if elapsed_ms < SAMPLE_MS:
            return
        counters, latencies = self._read_counters(), self._read_latencies()
        rates = [(now - before) * 1_000 / elapsed_ms for now, before in zip(counters, self._counters, strict=True)]
        answered = [now - before for now, before in zip(latencies, self._latencies, strict=True)]
        self._sampled_at, self._counters, self._latencies = now_ms, counters, latencies
        sample = (
            self._wall_ms() / 1_000,
            *rates,
            sum(answered) * 1_000 / elapsed_ms,
            percentile(answered, 0.5),
            percentile(answered, 0.99),
        )
        for column, value in zip(self._columns.values(), sample, strict=True):
            if len(column) == SAMPLES_MAX:
                del column[0]
            column.append(value)

    def columns(self) -> dict[str, list[float]]:
        """
        Return the samples as columns of equal length, oldest first.  A latency is NaN where no request was answered.
        """
        count = min(map(len, self._columns.values()))  # another thread may read while `tick` adds a sample
        return {name: list(column[-count:]) if count else [] for name, column in self._columns.items()}

    def _read_counters(self) -> list[int]:
        return [getattr(self._metrics, name) for name in RATES]

    def _read_latencies(self) -> list[int]:
        api = self._metrics.apis.get(PRODUCE)
        return [0] * (len(LATENCY_BOUNDS_MS) + 1) if api is None else [*api.latencies.counts]


def percentile(counts: Sequence[int], share: float) -> float:
    """
    Return the latency in milliseconds below which the fraction `share` of the answered requests lies, or NaN if there
    are none.

    `counts` has one number for each bucket of the latency histogram.  Within a bucket, latencies are assumed to be
    evenly distributed; the bucket without an upper bound counts as its lower bound.
    """
    wanted = sum(counts) * share
    if not wanted:
        return nan
    bounds = (0, *LATENCY_BOUNDS_MS)
    for bucket, reached in enumerate(accumulate(counts)):
        if reached >= wanted:
            if bucket == len(LATENCY_BOUNDS_MS):
                break
            inside = 1 - (reached - wanted) / counts[bucket]
            return bounds[bucket] + (bounds[bucket + 1] - bounds[bucket]) * inside
    return float(LATENCY_BOUNDS_MS[-1])
