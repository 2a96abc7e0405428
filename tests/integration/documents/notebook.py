"""A Python session in which a test types the cells of a page, one after the other, as the reader of a page does.

Run as a program, this file is the session: each line of its stdin is a cell, as a JSON string.
"""

import json
import re
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

_END: Final = "@@cell ended:"


class Notebook:
    """
    A Python process that keeps its names and its Spark session from cell to cell.

    `screen` contains everything that the last cell has printed, including Spark's warnings.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.screen = ""
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__))],  # -P: imports nothing from this folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=dict(environment),
            text=True,
        )

    def run(self, cell: str) -> bool:
        """Run a cell, wait until it ends, and return whether it raised no exception."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(f"{json.dumps(cell)}\n")
        stdin.flush()
        self.screen = ""
        for line in stdout:
            if line.startswith(_END):
                return line.removeprefix(_END).strip() == "True"
            self.screen += line
        return False  # the process has ended

    def wait_for(self, pattern: re.Pattern[str], seconds_max: float) -> bool:
        """
        Return whether the output of the last cell matches `pattern`.  The cell has already ended, so this does not
        wait.
        """
        return pattern.search(self.screen) is not None

    def close(self) -> None:
        """End the session, and Spark with it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def _run_cells(cells: TextIO) -> None:
    names: dict[str, object] = {"__name__": "__main__"}  # Spark pickles functions of this module by value
    for number, line in enumerate(cells, 1):
        is_done = True
        try:
            exec(compile(json.loads(line), f"<cell {number}>", "exec"), names)
        except Exception:
            is_done = False
            traceback.print_exc()
        sys.stderr.flush()
        print(f"{_END}{is_done}", flush=True)


if __name__ == "__main__":
    _run_cells(sys.stdin)
