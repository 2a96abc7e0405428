"""How `tidemill doctor` judges the facts that it has collected."""

import pytest

from tidemill.cli import doctor_checks as checks
from tidemill.cli.doctor_checks import Check, Status

PGO = "'--enable-optimizations'"
GIB = 1 << 30


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (checks.python((3, 11, 2), "/usr", ""), Status.OK),
        (checks.python((3, 13, 0), "/opt/python", PGO), Status.OK),
        (checks.python((3, 12, 1), "/home/a/.pyenv/versions/3.12.1", ""), Status.WARN),
        (checks.python((3, 10, 9), "/usr", ""), Status.FAIL),
        (checks.compiled_code(is_compiled=True, compiler=None), Status.OK),
        (checks.compiled_code(is_compiled=False, compiler="/usr/bin/cc"), Status.WARN),
        (checks.compiled_code(is_compiled=False, compiler=None), Status.WARN),
        (checks.java(17), Status.OK),
        (checks.java(8), Status.WARN),
        (checks.java(None), Status.WARN),
        (checks.open_files(-1), Status.OK),
        (checks.open_files(1 << 20), Status.OK),
        (checks.open_files(4_096), Status.WARN),
        (checks.open_files(256), Status.FAIL),
        (checks.data_directory("/data", None, "ext4"), Status.OK),
        (checks.data_directory("/dev/shm", None, "tmpfs"), Status.WARN),
        (checks.data_directory("/data", "Permission denied", None), Status.FAIL),
        (checks.sync_latency([0.001] * 99 + [0.5]), Status.OK),
        (checks.sync_latency([0.001] * 98 + [0.5] * 2), Status.WARN),
        (checks.sync_latency([3.0]), Status.WARN),
        (checks.free_disk(10 * GIB), Status.OK),
        (checks.free_disk(1 * GIB), Status.WARN),
        (checks.free_disk(GIB // 8), Status.FAIL),
        (checks.clock(2030, is_synchronized=True), Status.OK),
        (checks.clock(2030, is_synchronized=None), Status.OK),
        (checks.clock(2030, is_synchronized=False), Status.WARN),
        (checks.clock(1970, is_synchronized=None), Status.FAIL),
        (checks.port(9092, "listeners", None), Status.OK),
        (checks.port(9092, "listeners", "address already in use"), Status.WARN),
        (checks.connection_queue(4_096), Status.OK),
        (checks.connection_queue(128), Status.WARN),
        (checks.connection_queue(None), Status.OK),
    ],
    ids=str,
)
def test_what_is_not_ok_has_a_fix(check: Check, status: Status) -> None:
    """
    Each fact gets one of three verdicts, and every verdict other than OK comes with a fix.
    """
    assert (status, status is not Status.OK) == (check.status, bool(check.fix))


def test_sync_latency_shows_percentiles() -> None:
    """
    The check of sync latency shows p50 and p99, each of which is one of the measured latencies.
    """
    check = checks.sync_latency([0.001 * number for number in range(1, 101)])

    assert "p50 50.00 ms, p99 99.00 ms of 100 syncs" == check.found
