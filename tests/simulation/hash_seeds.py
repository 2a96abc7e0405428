"""Runs a program under two values of PYTHONHASHSEED: a simulation must not depend on Python's hash seed."""

import os
import subprocess
import sys


def outputs_under_two_hash_seeds(program: str) -> set[str]:
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
