"""The figures of a benchmark."""

import pytest

from tidemill.cli.bench_report import Timing, percentiles_ms, print_result, rates


def test_a_percentile_is_a_value_that_occurred() -> None:
    """
    A percentile is not interpolated: p95, for example, is the smallest value that is at least as large as 95 % of all
    values.
    """
    hundred = [number / 1000 for number in range(100, 0, -1)]

    assert {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99.9": 100.0, "max": 100.0} == percentiles_ms(hundred)
    assert {"p50": 7.0, "p95": 7.0, "p99": 7.0, "p99.9": 7.0, "max": 7.0} == percentiles_ms([0.007])
    assert percentiles_ms([]) is None


def test_rates_say_whether_the_client_was_the_limit() -> None:
    """
    Rates are per second of wall-clock time.  If a thread of the client computes nearly all the time, the client limits
    the rate.
    """
    idle = rates(1_000, 2 << 20, Timing(seconds=2.0, cpu_seconds=1.0, thread_seconds=0.5))
    busy = rates(1_000, 2 << 20, Timing(seconds=2.0, cpu_seconds=3.0, thread_seconds=1.9))

    assert (500, 1.0, 50, False) == tuple(
        idle[name] for name in ("records_per_s", "mib_per_s", "client_cpu_percent", "is_client_the_limit")
    )
    assert (150, True) == (busy["client_cpu_percent"], busy["is_client_the_limit"])


def test_a_result_is_printed_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """
    The result is printed for people, in aligned lines with units, and says so if the client limits the rate.
    """
    result = {
        "topic": "orders", "partitions": 1, "is_temporary": False, "records": 20_000, "size": 100, "seconds": 1.234,
        "records_per_s": 16_207, "mib_per_s": 1.55, "latency_ms": percentiles_ms([0.004]), "acks": "all",
        "compression": "none", "linger_ms": 5.0, "warm_up_records": 1, "client_cpu_percent": 120,
        "is_client_the_limit": True,
    }  # fmt: skip

    print_result(result, as_json=False)

    assert [
        "topic               orders (1 partition)",
        "records             20,000 of 100 bytes in 1.2 s",
        "rate                16,207 records/s, 1.55 MiB/s",
        "acknowledged after  p50 4.0 ms, p95 4.0 ms, p99 4.0 ms, p99.9 4.0 ms, max 4.0 ms",
        "options             acks all, compression none, linger 5 ms",
        "warm-up             1 record, not counted",
        "client              120 % of a core; it limits the rate: run several at once to find the broker's limit",
    ] == capsys.readouterr().out.splitlines()
