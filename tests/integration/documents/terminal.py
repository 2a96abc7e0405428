"""A terminal in which a test types commands, as the reader of a page does."""

import os
import pty
import re
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

COLUMNS: Final = 120
ROWS: Final = 60
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
_END: Final = "@@end"
_FAILED: Final = "_failed_with"  # the shell's variable with the status of the first command that failed
_SHELL: Final = """
import fcntl, os, signal, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp("bash", ["bash", "--norc", "--noprofile", "+o", "history"])
"""
"""Makes the pseudo-terminal, which is stdin, the controlling terminal, so that Ctrl-C works, and becomes a shell.

A test run that was started in the background ignores SIGINT, and so would Java processes that inherit that.

It is a program, because Python may not run code between fork and exec in a process with threads.
"""


class Terminal:
    """
    A shell behind a pseudo-terminal.  `screen` contains everything that has been printed since the last commands were
    typed.  A thread reads it, because a server blocks when its log is not read while the reader is at another terminal.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.screen = ""
        self.is_occupied = False  # whether a server runs in the foreground
        self._typed = 0  # how many groups of commands have been typed
        self._changed = threading.Condition()  # guards `screen`
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
        self._shell = subprocess.Popen(
            [sys.executable, "-c", _SHELL],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=directory,
            env=dict(environment) | {"PS1": "", "PS2": "", "TERM": "xterm", "COLUMNS": str(COLUMNS)},
            start_new_session=True,
        )
        os.close(theirs)
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        self._receiver.start()
        # Like `set -e`, the trap notices every command that fails, but the shell goes on.
        self._type(f"stty -echo; set -m -o pipefail; trap '{_FAILED}=${{{_FAILED}:-$?}}' ERR\n")
        self.run("true", lambda _: False, 30)

    def run(self, commands: str, is_server_ready: Callable[[str], object], seconds_max: float) -> int | None:
        """
        Type `commands` and return the exit status of the first one that fails, or 0.  Return None if a server in the
        foreground is ready before they end.

        Fail if neither happens within `seconds_max`.
        """
        with self._changed:
            self.screen = ""
        self._typed += 1
        end = re.compile(rf"{_END}{self._typed}:(\d+)\n")
        # One group of commands: the shell reads all of it before it starts, so no command reads the next one as input.
        self._type(f"{_FAILED}=; {{ {commands.rstrip()}\n}}; echo {_END}{self._typed}:${{{_FAILED}:-$?}}\n")
        until = time.monotonic() + seconds_max
        while True:
            with self._changed:
                if ended := end.search(self.screen):
                    self.screen = self.screen[: ended.start()]
                    return int(ended[1])
            if is_server_ready(self.screen):
                self.is_occupied = True
                return None
            assert time.monotonic() < until, f"{commands}\nhas not ended, and printed only:\n{self.screen}"
            self._read(0.1)

    def wait_for(self, pattern: re.Pattern[str], seconds_max: float) -> bool:
        """Return whether the screen matches `pattern` within `seconds_max`."""
        until = time.monotonic() + seconds_max
        while not pattern.search(self.screen):
            if time.monotonic() > until:
                return False
            self._read(0.1)
        return True

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait until the server in the foreground has ended."""
        end = re.compile(rf"{_END}{self._typed}:|\n{_END}interrupted\n")
        self._type("\x03")
        self._type(f"echo; echo {_END}interrupted\n")
        assert self.wait_for(end, 30), f"Ctrl-C did not end the server, which printed:\n{self.screen}"
        self.is_occupied = False

    def close(self) -> None:
        """Press Ctrl-C, wait until the foreground process has ended, and close the terminal."""
        self._type("\x03")
        self._type("\nexit\n")
        until = time.monotonic() + 30
        while self._shell.poll() is None and time.monotonic() < until:
            self._read(0.1)
        # No server may outlive the terminal: a later run would use it.
        subprocess.run(["pkill", "-KILL", "--session", str(self._shell.pid)], check=False)
        self._shell.wait()
        self._receiver.join(5)
        os.close(self._ours)

    def _type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def _read(self, seconds: float) -> None:
        """Wait until more is printed, at most `seconds`."""
        with self._changed:
            self._changed.wait(seconds)

    def _receive(self) -> None:
        while True:
            try:
                data = os.read(self._ours, 1 << 16)
            except OSError:  # Linux reports EIO when the last process has closed its side.
                return
            with self._changed:
                self.screen += _ESCAPE.sub("", data.decode(errors="replace"))
                self._changed.notify_all()
