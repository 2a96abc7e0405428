"""The benchmark of a lost broker tells its spans of time apart, and judges the limit by whole windows."""

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.lost_broker import LOST, MIB, BrokerSample, Sample, bounds, figures, is_replicated, lines, rates
from benchmarks.steady_producer import Latencies

QUIET, LOSS, COPIES, REPLICATED = 100.0, 110.0, 130.0, 160.0


def partition(replicas: list[int], isrs: list[int]) -> Any:
    return SimpleNamespace(partitions={0: SimpleNamespace(replicas=replicas, isrs=isrs)})


def sample(at: float, moved_mib: float) -> Sample:
    """Two brokers, of which the first sends twice as fast, after 3 MiB and 2 MiB before the loss."""
    one = BrokerSample(moved_bytes=(3 + moved_mib) * MIB, syncs=10 * at, sync_seconds=0.02 * at, cpu_seconds=0.1 * at)
    two = BrokerSample(moved_bytes=(2 + moved_mib / 2) * MIB, syncs=0, sync_seconds=0, cpu_seconds=0.1 * at)
    return Sample(at, {1: one, 2: two}, producer_cpu_seconds=0.3 * at, machine_cpu_seconds=0.6 * at)


@pytest.fixture
def told() -> dict[str, Any]:
    """A record every 10 ms is acknowledged in 10 ms, in 20 ms while copies are sent, and waits for the failover."""
    sent = [QUIET - 5 + number / 100 for number in range(7_000)]
    took = [0.01 if at < COPIES else 0.02 for at in sent]
    took[sent.index(LOSS)] = 3.0
    samples = [sample(at / 1, 10 * min(max(at - COPIES, 0), 25)) for at in range(95, 165)]
    found = figures(samples, Latencies(sent, took), quiet=QUIET, lost=LOSS, replicated=REPLICATED)
    return {"lost_bytes": 1_000_000_000, **found}


def test_the_pause_of_the_failover_belongs_to_no_other_span(told: dict[str, Any]) -> None:
    assert 3_000 == told["failover"]["max"]
    assert [10, 10, 20] == [round(told[name]["max"]) for name in ("quiet", "three_brokers", "copying")]
    assert 2 == pytest.approx(told["p99_ratio"])
    assert (1_000, 1_000) == (told["quiet"]["records"], told["three_brokers"]["records"])


def test_copies_begin_with_the_first_byte_after_the_loss(told: dict[str, Any]) -> None:
    """What was copied before the loss does not count."""
    assert {"loss_to_copies": 20, "copies": 30, "loss_to_replicated": 50} == told["seconds"]
    assert 375 * MIB == told["copied"]["bytes"]


def test_the_use_of_a_span_is_that_of_its_time(told: dict[str, Any]) -> None:
    use = told["quiet"]

    assert (20, 30, 10) == tuple(round(use[f"{name}_cpu_percent"]) for name in ("brokers", "producer", "others"))
    assert (10, 2) == (round(use["syncs_per_second"]), round(use["sync_ms"]))


def test_each_sender_is_judged_by_itself(told: dict[str, Any]) -> None:
    """The second sends half of the limit, which the sum of both hides."""
    assert (5, 10) == pytest.approx(bounds(told["copied"]))
    assert lines(told, 10 * MIB)[1].endswith(": miss")


def test_a_sender_within_a_tenth_of_the_limit_obeys_it(told: dict[str, Any]) -> None:
    told["copied"]["senders"].pop()

    assert lines(told, int(10.9 * MIB))[1].endswith(": pass")
    assert lines(told, int(9.2 * MIB))[1].endswith(": pass")
    assert lines(told, int(11.5 * MIB))[1].endswith(": miss")
    assert lines(told, int(9 * MIB))[1].endswith(": miss")


def test_windows_lie_within_the_time_in_which_bytes_are_sent() -> None:
    """A window that began before the first byte, or ended after the last, would show a lower rate than any."""
    sent = [(float(at), 100.0 * min(max(at - 20, 0), 15)) for at in range(60)]

    assert [100.0] * 4 == rates(sent)
    assert [] == rates(sent, seconds=20)


def test_a_window_shows_a_short_burst_of_ten_seconds() -> None:
    sizes = [0.0, *[10.0 * at for at in range(1, 12)], *[110.0 + 20 * at for at in range(1, 12)], 400.0, 400.0]

    found = rates([(float(at), size) for at, size in enumerate(sizes)])

    assert (10, 20) == (min(found), max(found))


def test_replicated_means_three_in_sync_without_the_lost_broker() -> None:
    whole = partition([1, 2, 4], [4, 1, 2])

    assert is_replicated([whole])
    assert not is_replicated([whole, partition([1, 2, LOST], [1, 2, LOST])])
    assert not is_replicated([whole, partition([1, 2, 4], [1, 2])])
    assert not is_replicated([whole, partition([1, 2], [1, 2])])
