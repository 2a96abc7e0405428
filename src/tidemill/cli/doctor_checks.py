"""The checks of `tidemill doctor`: each judges facts about the machine that `doctor_machine` has gathered."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from tidemill.broker.shards.free_space import FREE_BYTES_MIN
from tidemill.cli.output import counted
from tidemill.model.config_keys import BROKER_KEYS
from tidemill.model.data_size import size_text

PYTHON_MIN: Final = (3, 11)
JAVA_MIN: Final = 17
OPEN_FILES_MIN: Final = 1_024  # with fewer, a broker with a few hundred partitions and clients fails
OPEN_FILES_GOOD: Final = 65_536
SYNC_P99_GOOD_S: Final = 0.02  # flash storage is faster than this; a spinning disk is not
YEAR_MIN: Final = 2026  # an earlier year is wrong: the program did not exist yet
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(NamedTuple):
    name: str
    status: Status
    found: str
    fix: str | None = None  # what to do, unless the status is ok


def ok(name: str, found: str) -> Check:
    return Check(name, Status.OK, found)


def warn(name: str, found: str, fix: str) -> Check:
    return Check(name, Status.WARN, found, fix)


def fail(name: str, found: str, fix: str) -> Check:
    return Check(name, Status.FAIL, found, fix)


def python(version: tuple[int, int, int], base_prefix: str, build_arguments: str) -> Check:
    """Check Python's version and build.  Linux distributions use profile-guided optimization, but their builds do not
    report it.

    See decision 11.
    """
    found = f"{'.'.join(map(str, version))} in {base_prefix}"
    if version[:2] < PYTHON_MIN:
        return fail("python", found, f"use Python {'.'.join(map(str, PYTHON_MIN))} or newer")
    if base_prefix == "/usr" or "--enable-optimizations" in build_arguments:
        return ok("python", f"{found}, optimized")
    fix = "a Python built without profile-guided optimization is a sixth slower; use the distribution's python3"
    return warn("python", f"{found}, perhaps not optimized", fix)


def compiled_code(*, is_compiled: bool, compiler: str | None) -> Check:
    """Check that `batches/scan.py` was compiled."""
    if is_compiled:
        return ok("compiled code", "found")
    if compiler is None:
        return warn("compiled code", "missing, and there is no C compiler", "install gcc, then install Tidemill again")
    return warn(
        "compiled code", f"missing, although {compiler} is there", "`make install` in a checkout, or install it again"
    )


def java(version: int | None) -> Check:
    if version is None:
        return warn("java", "not found", f"only Spark needs it: install Java {JAVA_MIN} or newer, or set JAVA_HOME")
    if version < JAVA_MIN:
        return warn("java", f"version {version}", f"only Spark needs it: install Java {JAVA_MIN} or newer")
    return ok("java", f"version {version}, for Spark")


def open_files(hard_limit: int) -> Check:
    """
    Check the hard limit on open files, to which a broker raises its soft limit.  A negative number means that there is
    no limit.
    """
    found = "no limit" if hard_limit < 0 else f"at most {hard_limit:,}"
    fix = f"raise the hard limit: `ulimit -Hn {OPEN_FILES_GOOD}` as root, or LimitNOFILE= of a systemd unit"
    if 0 <= hard_limit < OPEN_FILES_MIN:
        return fail("open files", found, fix)
    if 0 <= hard_limit < OPEN_FILES_GOOD:
        return warn("open files", found, f"each client and each partition that is written takes one; {fix}")
    return ok("open files", found)


def data_directory(path: str, problem: str | None, file_system: str | None) -> Check:
    if problem is not None:
        return fail("data directory", f"{path}: {problem}", "make it writable, or choose another with --data")
    if file_system in IN_MEMORY:
        fix = "records do not survive a restart of the machine; choose a directory on a disk"
        return warn("data directory", f"{path} is in memory ({file_system})", fix)
    return ok("data directory", f"{path} on {file_system or 'an unknown file system'}")


def sync_latency(seconds: Sequence[float]) -> Check:
    """Check how long the disk takes to make a write durable, which is a lower bound of the acknowledgement latency."""
    ordered = sorted(seconds)
    p50, p99 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.99))
    found = f"p50 {1000 * p50:.2f} ms, p99 {1000 * p99:.2f} ms of {counted(len(ordered), 'sync')}"
    if p99 <= SYNC_P99_GOOD_S:
        return ok("sync latency", found)
    return warn("sync latency", found, "every acknowledgement waits for a sync: use a local SSD, or a quieter disk")


def free_disk(free_bytes: int) -> Check:
    """
    Compare the free bytes with the space that the broker needs to accept records, and with the maximum size of its
    journal.
    """
    journal = BROKER_KEYS["tidemill.journal.bytes.max"].default
    assert isinstance(journal, int)
    found = f"{size_text(free_bytes)} free"
    if free_bytes < FREE_BYTES_MIN:
        return fail("free disk", found, f"writes are refused below {FREE_BYTES_MIN >> 20} MiB: free some space")
    if free_bytes < FREE_BYTES_MIN + journal:
        needed = size_text(FREE_BYTES_MIN + journal)
        fix = f"the journal alone may need {needed}: free some space, or lower tidemill.journal.bytes.max"
        return warn("free disk", found, fix)
    return ok("free disk", found)


def clock(year: int, *, is_synchronized: bool | None) -> Check:
    """
    Check the clock, which timestamps and retention depend on.  The kernel may not report whether it is synchronized.
    """
    if year < YEAR_MIN:
        return fail("clock", f"the year is {year}", "set the clock: records would expire by it")
    if is_synchronized is False:
        fix = "run chrony or systemd-timesyncd: timestamps and retention follow the clock"
        return warn("clock", "not synchronized", fix)
    return ok(
        "clock", "synchronized" if is_synchronized else "plausible; the kernel does not say if it is synchronized"
    )


def port(number: int, key: str, problem: str | None) -> Check:
    if problem is None:
        return ok(f"port {number}", "free")
    return warn(f"port {number}", problem, f"stop what uses it (`ss -ltnp`), unless it is your broker, or set {key}")


def connection_queue(somaxconn: int | None) -> Check:
    """Check the kernel's limit on the length of the queue in which new connections wait."""
    backlog = BROKER_KEYS["socket.listen.backlog.size"].default
    assert isinstance(backlog, int)
    if somaxconn is None:
        return ok("net.core.somaxconn", "unknown")
    if somaxconn < backlog:
        fix = f"`sysctl net.core.somaxconn={backlog}`: many clients that connect at once may be delayed"
        return warn("net.core.somaxconn", str(somaxconn), fix)
    return ok("net.core.somaxconn", str(somaxconn))
