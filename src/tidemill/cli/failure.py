"""Errors of commands.  An error has an exit code and a message that names the request, the problem and the fix."""

import json
import sys
from enum import IntEnum


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    NO_BROKER = 3
    INTERRUPTED = 130  # after Ctrl-C: by convention 128 + SIGINT


class Failed(Exception):
    """The command failed.  `name` is Kafka's name of the error, or None if Kafka has no such error."""

    def __init__(self, message: str, *, exit_code: ExitCode = ExitCode.FAILED, name: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.name = name

    def print(self, *, as_json: bool) -> None:
        """Print the error to stderr, because stdout is for results only."""
        if as_json:
            row = {"event": "error", "exit_code": int(self.exit_code), "error": self.name, "message": self.message}
            print(json.dumps(row), file=sys.stderr)
        else:
            named = f"{self.name}: " if self.name else ""
            print(f"tidemill: {named}{self.message}", file=sys.stderr)


def usage(message: str) -> Failed:
    """Return a usage error."""
    return Failed(message, exit_code=ExitCode.USAGE)
