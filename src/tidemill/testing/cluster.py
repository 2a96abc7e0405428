"""A cluster of three brokers as child processes, which tests kill, stop and restart."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidemill.app.broker_processes import missing
from tidemill.app.dev_directory import DevBroker, DevDirectory
from tidemill.testing.process import READY_S_MAX, Process, environment_of
from tidemill.testing.served import PAUSE_S, Served

COUNT: Final = 3  # the least that tolerate the loss of one


class Cluster(Served):
    """A running cluster of the brokers 1, 2 and 3, whose topics have three replicas."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        """Start the brokers, whose data and logs are in `directory`, with these keys.  Raise BrokerFailed."""
        super().__init__()
        self._directory = directory
        self._environment = environment_of(settings)
        self._files = DevDirectory(str(directory / "data"))  # it keeps the ports of brokers that are down
        try:
            found = self._files.brokers(COUNT, kafka="127.0.0.1:0", http="127.0.0.1:0", environment=self._environment)
            self._brokers: dict[int, DevBroker] = {broker.broker_id: broker for broker in found}
            for number, broker in self._brokers.items():
                self._kafka[number], self._http[number] = str(broker.kafka), str(broker.http)
                self._start(number)
            for process in self.processes.values():
                process.ready_line()
            self._wait_until_complete()
            self._files.mark_bootstrapped(found)
        except BaseException:
            self.close()
            raise

    def kill(self, number: int) -> None:
        """Kill a broker as `kill -9` does."""
        self._process(number).kill()

    def stop(self, number: int) -> None:
        """Stop a broker cleanly: it hands its leaderships to other brokers first."""
        self._process(number).stop()

    def restart(self, number: int) -> None:
        """Start a broker that was killed or stopped, with its ports and its data, and wait until it is ready."""
        if self._process(number).is_running:
            raise ValueError(f"broker {number} runs; kill or stop it first")
        self._start(number)
        self.processes[number].ready_line()

    def restore(self) -> None:
        """Restart the brokers that are down, and wait until the cluster tolerates the loss of any one broker."""
        down = [number for number, process in self.processes.items() if not process.is_running]
        for number in down:
            self._start(number)
        for number in down:
            self.processes[number].ready_line()
        if down:
            self._wait_until_complete()

    def close(self) -> None:
        for process in self.processes.values():
            if process.is_running:
                process.kill()  # nothing is read from the directory again, so a clean stop would only take time
        self._files.close()

    def _process(self, number: int) -> Process:
        """Return the last run of a broker.  Raise ValueError if there is no broker of this number."""
        found = self.processes.get(number)
        if found is None:
            raise ValueError(f"broker {number}: the cluster has the brokers {', '.join(map(str, self.processes))}")
        return found

    def _start(self, number: int) -> None:
        options = ("--config", self._brokers[number].config, "--ahead-ms", str(self._ahead_ms))
        log = self._directory / f"broker-{number}.log"
        self.processes[number] = Process(f"broker {number}", options, log=log, environment=self._environment)

    def _wait_until_complete(self) -> None:
        until = time.monotonic() + READY_S_MAX
        while (problem := missing(list(self._brokers.values()))) is not None:
            if time.monotonic() > until:
                raise self.processes[1].failure(f"and the others are no complete cluster: {problem}")
            time.sleep(PAUSE_S)
