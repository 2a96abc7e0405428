"""A beanstalkd server of Debian's package `beanstalkd`, with its own write-ahead log and port."""

import os
import shutil
from pathlib import Path
from typing import Final

from benchmarks.broker import BrokerProcess, Unavailable, free_port, wait_for_port

READY_SECONDS_MAX: Final = 10.0


class Beanstalkd(BrokerProcess):
    def __init__(self, directory: Path, *, port: int | None = None, is_synced: bool = False) -> None:
        """By default, jobs are synced at most every 50 ms; with `is_synced`, always.  Raise Unavailable."""
        program = shutil.which("beanstalkd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")
        if program is None:
            raise Unavailable("beanstalkd is not installed; Debian's package is beanstalkd")
        data = directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        command = [program, "-l", "127.0.0.1", "-p", str(self.port), "-b", str(data), *(["-f0"] if is_synced else [])]
        super().__init__("beanstalkd", command, log=directory / "server.log", environment=os.environ)

    def wait_until_ready(self) -> None:
        wait_for_port(self.port, self, seconds_max=READY_SECONDS_MAX)
