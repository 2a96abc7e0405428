"""Runs the `tidemill` command on a terminal with a fixed width."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress

from tests.integration.cli.command import ENVIRONMENT, Finished

COLUMNS = 100
LINES = 50
PROMPT = b"[y/N]: "
A_CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(*arguments: str, bootstrap: str, answer: str = "", piped: str | None = None) -> Finished:
    """
    Run the command until it ends, with stdin, stdout and stderr on one terminal; `out` contains everything it printed.

    If the command asks a question, it gets `answer`.  If `piped` is given, stdin is a pipe that delivers this text
    instead.
    """
    controlling, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {name: value for name, value in ENVIRONMENT.items() if name not in ("COLUMNS", "LINES")}
    environment |= {"TIDEMILL_BOOTSTRAP": bootstrap, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-m", "tidemill", *arguments]
    stdin = terminal if piped is None else subprocess.PIPE
    with subprocess.Popen(command, stdin=stdin, stdout=terminal, stderr=terminal, env=environment) as process:
        os.close(terminal)
        if process.stdin is not None:
            process.stdin.write((piped or "").encode())
            process.stdin.close()
        printed = b""
        try:
            while True:
                printed += os.read(controlling, 65_536)
                if printed.endswith(PROMPT):
                    os.write(controlling, f"{answer}\n".encode())
        except OSError:  # EIO: the command has ended and nothing is left to read
            pass
        exit_code = process.wait(timeout=90)
    os.close(controlling)
    text = A_CONTROL_SEQUENCE.sub("", printed.decode()).replace("\r\n", "\n")
    return Finished(exit_code=exit_code, out="".join(f"{line.rstrip()}\n" for line in text.splitlines()), err="")


def live_view(*arguments: str, redraws: int, **variables: str) -> str:
    """
    Run a command that redraws a view of the cluster until it has drawn it `redraws` times; return what it printed.

    Fail unless Ctrl-C then ends the command with code 0.
    """
    controlling, terminal = pty.openpty()
    command = [sys.executable, "-m", "tidemill", *arguments]
    environment = ENVIRONMENT | variables | {"COLUMNS": "160", "LINES": "50", "TERM": "xterm"}
    with subprocess.Popen(
        command, stdout=terminal, stderr=subprocess.PIPE, env=environment, preexec_fn=heed_interrupts
    ) as process:
        os.close(terminal)
        drawn = b""
        while drawn.count(b"Cluster ") < redraws:
            drawn += os.read(controlling, 65_536)
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # EIO: the command has ended
            while True:  # a command whose output is not read would wait for ever
                drawn += os.read(controlling, 65_536)
        _, errors = process.communicate(timeout=30)
    os.close(controlling)
    assert (0, b"") == (process.returncode, errors)
    return drawn.decode(errors="replace")  # the last character may be incomplete


def heed_interrupts() -> None:
    """Restore SIGINT's default handler: a suite in the background ignores SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
