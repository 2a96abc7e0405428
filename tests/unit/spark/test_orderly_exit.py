"""Spark ends the process of a streaming reader with two SIGTERM, and the reader must be able to clean up."""

import subprocess
import sys

PROGRAM = """
import os, signal, time
from tidemill.spark.orderly_exit import exit_on_termination
exit_on_termination()
try:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
finally:
    os.kill(os.getpid(), signal.SIGTERM)
    print("released")
"""


def test_a_terminated_process_cleans_up():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)

    assert (143, "released\n") == (done.returncode, done.stdout), done.stderr
