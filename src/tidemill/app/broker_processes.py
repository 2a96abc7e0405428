"""Runs several brokers as child processes: starts them together, watches them, and stops them together.

A broker that exits is reported but not restarted, so that users can observe failures.  When the parent process ends for
any reason, the kernel sends each broker SIGTERM.
"""

import ctypes
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from tidemill.app.dev_directory import DevBroker
from tidemill.app.start_problem import StartProblem
from tidemill.client import broker_http
from tidemill.metadata.growth import internal_replication_factor
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.internal_topics import METADATA
from tidemill.model.topic import METADATA_TOPIC
from tidemill.runtime.os_clock import OsClock
from tidemill.telemetry.event_log import EventLog

CHECK_INTERVAL_S: Final = 0.05  # between checks of whether the cluster is complete
PROGRESS_INTERVAL_S: Final = 10.0  # between messages that report what the cluster still lacks
STOP_S_MAX: Final = 10.0  # a clean stop with leadership transfers takes two seconds; a broker that takes 10 s is stuck
STOP_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM})
_AWAITED_SIGNALS: Final = STOP_SIGNALS | {signal.SIGCHLD}
_PR_SET_PDEATHSIG: Final = 1  # the option of prctl(2) that sets the signal to receive when the parent process ends
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class BrokerProcesses:
    def __init__(self, brokers: Sequence[DevBroker], *, as_json: bool) -> None:
        self._brokers = brokers
        self._as_json = as_json
        self._events = EventLog(sys.stderr.write, OsClock().wall_ms, as_json=as_json)
        self._running: dict[DevBroker, subprocess.Popen[bytes]] = {}
        self._pids: dict[DevBroker, int] = {}

    def pid(self, broker: DevBroker) -> int:
        return self._pids[broker]

    def run(self, ready: Callable[[], None]) -> None:
        """Run the brokers until SIGINT or SIGTERM.

        `ready` is called once every broker serves and the cluster tolerates the loss of any one of them.  Raises
        StartProblem if a broker cannot start or does not stop.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED_SIGNALS)  # `sigwaitinfo` will receive the signals
        try:
            try:
                for broker in self._brokers:
                    self._start(broker)
                if self._wait_until_complete():
                    ready()
                    while not self._wait_for_stop(None):
                        self._reap_exited()
            finally:
                self._stop()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _start(self, broker: DevBroker) -> None:
        ends_with_parent = ending_with_parent()

        def prepare() -> None:
            ends_with_parent()
            signal.pthread_sigmask(signal.SIG_SETMASK, ())

        process = subprocess.Popen(
            broker.command(as_json=self._as_json),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # suppress the broker's ready line: there is one for the whole cluster
            preexec_fn=prepare,
        )
        self._running[broker] = process
        self._pids[broker] = process.pid

    def _wait_until_complete(self) -> bool:
        """Wait until the cluster is complete.  Return False if a stop is requested first."""
        began_at = reported_at = time.monotonic()
        while (problem := missing(self._brokers)) is not None:
            if time.monotonic() - reported_at > PROGRESS_INTERVAL_S:
                reported_at = time.monotonic()
                waited_ms = int((reported_at - began_at) * 1_000)
                self._events.waiting("waiting for the cluster", waited_ms, problem=problem)
            if self._wait_for_stop(CHECK_INTERVAL_S):
                return False
            exited = self._reap_exited()
            if exited is not None:
                raise StartProblem(
                    f"broker {exited.broker_id} exited before the cluster was ready; its messages on stderr say why"
                )
        return True

    def _wait_for_stop(self, timeout_s: float | None) -> bool:
        """Wait for a signal or the timeout; return whether a stop was requested."""
        signal_info = (
            signal.sigwaitinfo(_AWAITED_SIGNALS)
            if timeout_s is None
            else signal.sigtimedwait(_AWAITED_SIGNALS, timeout_s)
        )
        return signal_info is not None and signal_info.si_signo in STOP_SIGNALS

    def _reap_exited(self) -> DevBroker | None:
        """Log every broker that has exited since the last call; return one of them, or None."""
        exited = None
        for broker, process in [*self._running.items()]:
            if process.poll() is not None:
                del self._running[broker]
                exited = broker
                self._events.warning(
                    "broker exited",
                    broker=broker.broker_id,
                    pid=process.pid,
                    status=_exit_status(process.returncode),
                    restart_command=shlex.join(broker.command(as_json=self._as_json)),
                )
        if exited is not None and not self._running:
            self._events.warning(
                "no broker is left", then="brokers started by hand keep running; end this command with Ctrl-C"
            )
        return exited

    def _stop(self) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + STOP_S_MAX
        killed = []
        for broker, process in self._running.items():
            try:
                process.wait(max(until - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                killed.append(str(broker.broker_id))
        if killed:
            raise StartProblem(f"broker {', '.join(killed)} did not stop within {STOP_S_MAX:.0f} s and was killed")


def missing(brokers: Sequence[DevBroker]) -> str | None:
    """Return what the cluster of `brokers` still lacks, or None if it is complete.

    A cluster is complete if every broker sees every other broker and the metadata shard has all its voters.
    """
    count = len(brokers)
    wanted = internal_replication_factor(METADATA, count, BrokerLayers())
    voters: list[int] = []
    for broker in brokers:
        try:
            broker_http.ask(broker.http_local, "/health/ready")
            rows = broker_http.ask(broker.http_local, "/v1/brokers")["brokers"]
            (shard,) = broker_http.ask(broker.http_local, "/v1/shards", topic=METADATA_TOPIC)["shards"]
        except (broker_http.NoResponse, broker_http.NotReady) as problem:
            return f"broker {broker.broker_id} is not ready: {problem}"
        live = [row["broker_id"] for row in rows if row["is_registered"] and row["is_live"]]
        if len(live) < count:
            return f"broker {broker.broker_id} has contact only to brokers {live}"
        if shard["led_here"] is not None:
            voters = shard["led_here"]["voters"]
    return None if len(voters) == wanted else f"the metadata shard has voters {voters}, but needs {wanted}"


def ending_with_parent() -> Callable[[], None]:
    """Return a function for a child process, which lets the kernel send it SIGTERM when the calling thread ends."""
    parent = os.getpid()

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # The parent exited before prctl was called, so the kernel will not send SIGTERM.

    return prepare


def _exit_status(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
