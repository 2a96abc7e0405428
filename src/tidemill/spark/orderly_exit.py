"""Lets a Python worker of Spark's driver clean up when the query ends.

Spark ends the process of a streaming reader with SIGTERM, whether the query was stopped or failed.  By default, that
kills a Python process before it can call the reader's `stop`.
"""

import signal
import threading
from types import FrameType


def exit_on_termination() -> None:
    """Make SIGTERM raise SystemExit in the main thread of this process.  Without effect in another thread."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Spark sends the signal twice
    raise SystemExit(128 + number)
