"""A seed is one run, whatever Python's hashes are: what a program prints under two of them."""

import os
import subprocess
import sys


def printed_under_two(program: str) -> set[str]:
    return {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
