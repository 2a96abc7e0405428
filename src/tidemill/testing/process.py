"""A broker that runs as a child process (`broker_program`) until the test session ends, with its log in a file."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tidemill.app.broker_processes import ending_with_parent
from tidemill.app.listeners import HTTP_LISTENER, PEER_LISTENER
from tidemill.app.settings import ENVIRONMENT_PREFIX
from tidemill.model.config_keys import BROKER_KEYS

READY_S_MAX: Final = 60.0  # a start takes a second; a busy machine needs many times that
ADVANCE_S_MAX: Final = 60.0  # an answer takes a millisecond; a busy machine needs many times that
STOP_S_MAX: Final = 10.0  # a clean stop takes at most two seconds
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0"}  # with Kafka's default, each new group waits for 3 s
OF_EACH_BROKER: Final = ("broker.id", "node.id", "log.dirs", "listeners", HTTP_LISTENER, PEER_LISTENER)
LOG_BYTES_SHOWN: Final = 8_000  # the end of a log, in error messages and reports


class BrokerFailed(Exception):
    """A broker has not started or not answered; the message contains the end of its log."""


class Process:
    """One run of a broker."""

    def __init__(self, name: str, options: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> None:
        """Start a broker with these `options` of `broker_program`."""
        self.name = name
        self._log = log
        with log.open("ab") as stderr:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tidemill.testing.broker_program", *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=dict(environment),
                preexec_fn=ending_with_parent(),  # a test session that is killed leaves no broker behind
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_running(self) -> bool:
        return self._child.poll() is None

    def ready_line(self) -> dict[str, Any]:
        """Wait until the broker is ready, and return what it prints then.  Raise BrokerFailed."""
        line = self._line(READY_S_MAX)
        if line:
            return dict(json.loads(line))
        problem = "ended before it was ready" if line is not None else f"was not ready within {READY_S_MAX:.0f} s"
        self.kill()
        raise self.failure(problem)

    def advance(self, ms: int) -> dict[str, Any]:
        """Move the broker's wall clock forward, and return what it tells then of all clocks.  Raise BrokerFailed."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(b"%d\n" % ms)
            self._child.stdin.flush()
        except OSError as error:
            raise self.failure(f"cannot be told the time ({error})") from error
        line = self._line(ADVANCE_S_MAX)
        if line:
            return dict(json.loads(line))
        raise self.failure("ended" if line is not None else f"has not told the time within {ADVANCE_S_MAX:.0f} s")

    def _line(self, seconds_max: float) -> bytes | None:
        """Return the next line that the broker prints; b"" if it has ended, None if it prints none in time."""
        assert self._child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            return self._child.stdout.readline() if selector.select(seconds_max) else None

    def failure(self, problem: str) -> BrokerFailed:
        """Return an error that shows the end of the log."""
        return BrokerFailed(f"{self.name} {problem}; the end of its log:\n{self.log()}")

    def log(self) -> str:
        """Return the end of the log."""
        with self._log.open("rb") as file:
            file.seek(max(self._log.stat().st_size - LOG_BYTES_SHOWN, 0))
            return file.read().decode(errors="replace")

    def stop(self) -> None:
        """Stop the broker cleanly; kill it if it does not stop."""
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()

    def kill(self) -> None:
        """Kill the broker as `kill -9` does."""
        self._child.kill()
        self._child.wait()
        self._close()

    def _close(self) -> None:
        assert self._child.stdin is not None and self._child.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # a command that the broker has not read
            self._child.stdin.close()
        self._child.stdout.close()


def environment_of(settings: Mapping[str, str]) -> dict[str, str]:
    """
    Return the environment of a broker with these configuration keys, and with none from the user's own shell.

    Raise ValueError for a key that does not exist, or that the fixtures set themselves.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")}
    for key, value in (SETTINGS | dict(settings)).items():
        if key not in BROKER_KEYS:
            raise ValueError(
                f"tidemill_settings: {key}={value!r}: there is no such key; docs/reference/configuration.md lists them"
            )
        if key in OF_EACH_BROKER:
            raise ValueError(
                f"tidemill_settings: {key}={value!r}: the fixtures choose it for each broker; leave it out"
            )
        own[ENVIRONMENT_PREFIX + key.removeprefix("tidemill.").replace(".", "_").upper()] = str(value)
    return own
