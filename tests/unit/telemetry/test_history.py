"""The last hour of a broker's traffic."""

from math import isnan

import pytest

from tidemill.telemetry.history import SAMPLES_MAX, History, percentile
from tidemill.telemetry.metrics import Metrics


class Clock:
    def __init__(self) -> None:
        self.now_ms = 5_000

    def wall_ms(self) -> int:
        return 1_000_000 + self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


def history_of(metrics: Metrics, clock: Clock) -> History:
    return History(metrics, monotonic_ms=clock.monotonic_ms, wall_ms=clock.wall_ms)


def test_a_sample_holds_rates_per_second() -> None:
    """
    A sample divides the counts since the previous sample by the time that has actually elapsed, which is longer after a
    stall.
    """
    metrics, clock = Metrics(), Clock()
    history = history_of(metrics, clock)
    metrics.produce_bytes, metrics.produce_records = 20_000, 40
    clock.now_ms += 20_000

    history.tick()

    columns = history.columns()
    assert ([1_025.0], [1_000.0], [2.0], [0.0]) == tuple(
        columns[name] for name in ("time_s", "produce_bytes", "produce_records", "journal_bytes")
    )


def test_no_sample_is_taken_before_it_is_due() -> None:
    """
    No sample is taken before it is due; the broker ticks forty times per sample.
    """
    clock = Clock()
    history = history_of(Metrics(), clock)
    clock.now_ms += 9_999

    history.tick()

    assert [] == history.columns()["time_s"]


def test_the_oldest_samples_are_dropped() -> None:
    """
    The oldest samples are dropped: the ring keeps one hour, however long the broker runs.
    """
    clock = Clock()
    history = history_of(Metrics(), clock)

    for _ in range(SAMPLES_MAX + 5):
        clock.now_ms += 10_000
        history.tick()

    times = history.columns()["time_s"]
    assert (SAMPLES_MAX, 1_065.0) == (len(times), times[0])


def test_latencies_are_those_of_the_sampled_time() -> None:
    """
    The percentiles cover the Produce requests since the previous sample, and are unknown if there were none.
    """
    metrics, clock = Metrics(), Clock()
    metrics.api(0).latencies.observe(30_000)
    history = history_of(metrics, clock)
    for latency_ms in [2] * 99 + [100]:
        metrics.api(0).latencies.observe(latency_ms)

    for _ in range(2):
        clock.now_ms += 10_000
        history.tick()

    columns = history.columns()
    assert [10.0, 0.0] == columns["produce_requests"]
    assert 1 < columns["latency_ms_p50"][0] < 2 == columns["latency_ms_p99"][0]
    assert isnan(columns["latency_ms_p50"][1]) and isnan(columns["latency_ms_p99"][1])


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([4, *[0] * 14], 0.5, 0.5),
        ([1, 0, 1, *[0] * 12], 1.0, 5.0),
        ([0] * 14 + [3], 0.5, 30_000.0),
    ],
)
def test_a_percentile_lies_within_its_bucket(counts: list[int], share: float, expected: float) -> None:
    """
    Latencies are assumed to be evenly distributed within a bucket; those above all bounds count as the highest bound.
    """
    assert expected == percentile(counts, share)
