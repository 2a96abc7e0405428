"""A process that starts with a low limit on open files raises it."""

import subprocess
import sys

PROGRAM = """
import resource
from tidemill.runtime.open_files_limit import raise_open_files_limit
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
print(raise_open_files_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard)
"""


def test_the_soft_limit_becomes_the_hard_one() -> None:
    """
    The soft limit is raised to the hard limit.  The test uses a separate process, so that the limit of its own process
    does not change.
    """
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)

    assert ("True\n", 0) == (ran.stdout, ran.returncode), ran.stderr
