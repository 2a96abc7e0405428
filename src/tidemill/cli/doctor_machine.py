"""Gathers the facts about this machine that `tidemill doctor` checks."""

import ctypes
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidemill.batches.native import is_compiled
from tidemill.cli import doctor_checks as checks
from tidemill.cli.doctor_checks import Check
from tidemill.model.config_keys import BROKER_KEYS

KAFKA_PORT: Final = 9092
SYNCS_MAX: Final = 200
SYNC_SECONDS_MAX: Final = 2.0
PAGE: Final = b"\xa5" * 4096
TIME_ERROR: Final = 5  # adjtimex: the clock is not synchronized
TIMEX_BYTES: Final = 512  # larger than the kernel's struct timex
JAVA_TIMEOUT_S: Final = 20.0


def all_checks(data: str) -> Iterator[Check]:
    """Perform all checks, one after another, and yield each result."""
    yield checks.python(sys.version_info[:3], sys.base_prefix, str(sysconfig.get_config_var("CONFIG_ARGS") or ""))
    yield checks.compiled_code(
        is_compiled=is_compiled(), compiler=next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    )
    yield checks.java(java_version())
    yield checks.open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    yield from disk_checks(data)
    yield checks.clock(time.gmtime().tm_year, is_synchronized=is_clock_synchronized())
    yield checks.port(KAFKA_PORT, "listeners, or --kafka of `tidemill dev`", port_problem(KAFKA_PORT))
    for key in ("tidemill.http.listener", "tidemill.peer.listener"):
        number = int(str(BROKER_KEYS[key].default).rpartition(":")[2])
        yield checks.port(number, key, port_problem(number))
    yield checks.connection_queue(_number(Path("/proc/sys/net/core/somaxconn")))


def disk_checks(data: str) -> Iterator[Check]:
    """Yield the checks of the data directory, or of its nearest existing parent."""
    directory = Path(data).absolute()
    try:
        while not directory.exists():
            directory = directory.parent
        syncs = sync_seconds(directory)
    except OSError as error:
        yield checks.data_directory(str(directory), error.strerror or str(error), None)
        return
    yield checks.data_directory(str(directory), None, file_system_of(directory))
    yield checks.sync_latency(syncs)
    yield checks.free_disk(shutil.disk_usage(directory).free)


def sync_seconds(directory: Path) -> list[float]:
    """
    Write up to SYNCS_MAX pages, each with an fdatasync, and return how long each one took.  Raise OSError if a write
    fails.
    """
    durations: list[float] = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        number = file.fileno()
        for page in range(SYNCS_MAX):
            os.pwrite(number, PAGE, page * len(PAGE))
        os.fsync(number)  # the loop below overwrites allocated pages, as a broker does in its journal
        end = time.monotonic() + SYNC_SECONDS_MAX
        for page in range(SYNCS_MAX):
            start = time.perf_counter()
            os.pwrite(number, PAGE, page * len(PAGE))
            os.fdatasync(number)
            durations.append(time.perf_counter() - start)
            if time.monotonic() > end:
                break
    return durations


def file_system_of(directory: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """Return the type of the file system, or None if the operating system does not report it."""
    best, found = -1, None
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    resolved = directory.resolve()
    for line in lines:
        _, at, kind, *_ = line.split(" ")
        mount = Path(at.replace("\\040", " "))
        if resolved.is_relative_to(mount) and len(mount.parts) >= best:
            best, found = len(mount.parts), kind
    return found


def java_version() -> int | None:
    """Return the major version of the Java that Spark would start, or None if there is none."""
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else "java"
    try:
        finished = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return java_version_in(finished.stderr)


def java_version_in(text: str) -> int | None:
    """Return the major version in the output of `java -version`: 8 for "1.8.0_292", 17 for "17.0.1"."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found is not None else None


def is_clock_synchronized() -> bool | None:
    """Return whether the kernel reports the clock as synchronized, or None if this cannot be determined."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    except (AttributeError, OSError):
        return None
    return None if state < 0 else state != TIME_ERROR


def port_problem(number: int) -> str | None:
    """Return why a broker could not listen on this port of 127.0.0.1, or None if it could."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the broker sets this option, too
        try:
            listener.bind(("127.0.0.1", number))
            listener.listen()
        except OSError as error:
            return (error.strerror or str(error)).lower()
    return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
