"""A Tidemill broker process, started with `tidemill dev --json`, for benchmarks and for tests of real processes."""

import json
import os
import re
import selectors
import signal
import sys
from collections.abc import Mapping, Sequence
from compileall import compile_dir
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from benchmarks.broker import STOP_SECONDS_MAX, BrokerProcess, free_port, wait_for_port

READY_SECONDS_MAX = 30.0
SCRAPE_SECONDS_MAX = 10.0
SAMPLE = re.compile(rb"^(\w+) (\S+)$", re.MULTILINE)
REPOSITORY = Path(__file__).resolve().parent.parent


class TidemillBroker(BrokerProcess):
    """
    One broker process, by default of `tidemill dev`; with port 0 it chooses its port.

    With `settings`, the process is `tidemill broker` with a configuration file, because `dev` accepts no settings.
    `wrapper` is a prefix of the command, such as strace; `pid` is then the process id of the wrapper, and `broker_pid`
    the one in the ready line.  `source` is the `src` folder whose program runs, which may be that of another checkout.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        settings: Mapping[str, str | int] | None = None,
        wrapper: Sequence[str] = (),
        source: Path = REPOSITORY / "src",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        data = directory / "data"
        if settings is None:
            arguments = ["dev", "--json", "--data", str(data)]
            arguments += ["--kafka", f"127.0.0.1:{port}", "--http", "127.0.0.1:0"]
        else:
            port = port or free_port()
            configuration = directory / "broker.yaml"
            listeners = {
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "tidemill.http.listener": f"127.0.0.1:{free_port()}",
                "tidemill.peer.listener": "127.0.0.1:0",  # several brokers may run at once
            }
            keys = {"log.dirs": str(data), **listeners, **settings}
            self.http = str(keys["tidemill.http.listener"])
            configuration.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items()))
            arguments = ["broker", "--json", "--config", str(configuration)]
        compile_dir(source, quiet=1)  # pip does this, too; the process itself may be unable to write bytecode
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])}
        command = [*wrapper, sys.executable, "-m", "tidemill", *arguments]
        super().__init__("Tidemill", command, log=directory / "broker.log", environment=environment)
        self.broker_pid = self.pid
        self._port = 0 if settings is None else port

    def wait_until_ready(self) -> None:
        if self._port:  # `tidemill broker` prints no ready line
            self.bootstrap = f"127.0.0.1:{self._port}"
            wait_for_port(self._port, self, seconds_max=READY_SECONDS_MAX)
            return
        ready = ready_line(self)
        self.bootstrap, self.http = str(ready["kafka"]), str(ready["http"])
        self.broker_pid = int(ready["pid"])

    def checkpoints(self) -> int:
        """Return the number of completed checkpoints since the start, from the broker's metrics."""
        return int(self.samples()["tidemill_checkpoints_total"])

    def samples(self) -> dict[str, float]:
        """Return the broker's metrics without labels, by name."""
        with urlopen(f"http://{self.http}/metrics", timeout=SCRAPE_SECONDS_MAX) as answer:
            return {name.decode(): float(value) for name, value in SAMPLE.findall(answer.read())}

    def stop_wrapped(self) -> None:
        """Stop the broker itself, not its wrapper: the wrapper exits by itself when it has written its output."""
        if self.broker_pid != self.pid:
            os.kill(self.broker_pid, signal.SIGTERM)
            self._process.wait(STOP_SECONDS_MAX)
        self.stop()


def ready_line(process: BrokerProcess) -> dict[str, Any]:
    """Return the ready line of a broker that was started with --json."""
    with selectors.DefaultSelector() as selector:
        selector.register(process.output, selectors.EVENT_READ)
        while selector.select(READY_SECONDS_MAX):
            line = process.output.readline()
            if not line:
                break
            if line.startswith(b"{") and (event := json.loads(line)).get("event") == "ready":
                return dict(event)
    raise RuntimeError(f"{process.name} did not become ready; the end of its log:\n{process.last_words()}")
