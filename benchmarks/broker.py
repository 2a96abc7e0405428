"""
A broker process with what benchmarks need: its address, its process id, and the resources that it has used.

Figures come from /proc, so that both kinds of broker are measured from outside and in the same way.
"""

import atexit
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Protocol

from tidemill.app.held_ports import HeldPorts
from tidemill.app.listeners import Address

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STOP_SECONDS_MAX = 30.0  # Kafka's clean stop takes a few seconds; a broker that needs longer is killed.
LOG_TAIL_CHARACTERS = 2_000  # the end of a broker's log, enough to see why it did not start

_PORTS: Final = HeldPorts()


class Unavailable(Exception):
    """The machine lacks something that the benchmark needs; the message is shown to the user."""


class Broker(Protocol):
    """One running broker process."""

    @property
    def name(self) -> str: ...

    @property
    def bootstrap(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def cpu_seconds(self) -> float:
        """Return the user and system time of all threads since the process started, in seconds."""
        ...

    def resident_bytes(self) -> int: ...

    def stop(self) -> None: ...


class BrokerProcess:
    """A broker that the benchmark has started and ends by its process id."""

    def __init__(self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        self._log_file: IO[bytes] = log.open("ab")
        self.started_at = time.monotonic()
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log_file, stdin=subprocess.DEVNULL, env=dict(environment)
        )
        self.pid = self._process.pid
        atexit.register(self._end_with_us)
        self.bootstrap = ""

    @property
    def output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def wait_until_ready(self) -> None:
        """Wait until the broker is ready.  Each kind of broker has its own sign of readiness."""
        raise NotImplementedError

    def _end_with_us(self) -> None:
        """Kill the broker if it still runs, so that a failed benchmark leaves no process behind."""
        if not self.has_ended():
            self._process.kill()

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def last_words(self) -> str:
        self._log_file.flush()
        return self.log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    def resident_bytes(self) -> int:
        return resident_bytes(self.pid)

    def kill(self) -> None:
        """Kill the broker with SIGKILL: no handler runs."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._close()

    def stop(self) -> None:
        if not self.has_ended():
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._close()

    def _close(self) -> None:
        self.output.close()
        self._log_file.close()


def cpu_seconds(pid: int) -> float:
    # The second field is the command in parentheses and may contain spaces, so later fields are counted from its end.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user_ticks, system_ticks = int(fields[11]), int(fields[12])
    return (user_ticks + system_ticks) / CLOCK_TICKS


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def free_port() -> int:
    """Return a loopback port for a broker that cannot choose one itself; it stays reserved until this process ends."""
    return _PORTS.take(Address("127.0.0.1", 0)).port


def wait_for_port(port: int, process: BrokerProcess, *, seconds_max: float) -> None:
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        if process.has_ended():
            raise RuntimeError(
                f"{process.name} exited before it was ready; the end of its log:\n{process.last_words()}"
            )
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)  # poll the port: a Kafka broker does not report that it is ready
    raise RuntimeError(
        f"{process.name} was not ready after {seconds_max:.0f} s; the end of its log:\n{process.last_words()}"
    )
