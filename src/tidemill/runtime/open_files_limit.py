"""Raises this process's limit on open files to the hard limit.

The soft limit is 1,024 on most systems, for programs that call `select`.  A broker needs more: every partition that is
written to keeps a file open until a checkpoint has synced it, and every client has a socket.
"""

import resource


def raise_open_files_limit() -> int:
    """Raise the soft limit to the hard limit; return the resulting soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft  # Some systems do not allow the soft limit to reach the hard limit.
    return hard
