"""How many files this process may have open: as many as it is allowed to ask for.

The soft limit is 1,024 nearly everywhere, for the sake of programs that call `select`.  Every partition that is written
to keeps a file open until a checkpoint has synced it, and every client has a socket.
"""

import resource


def raise_open_files_limit() -> int:
    """The soft limit becomes the hard one; what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft  # some systems allow less than they say
    return hard
