"""One broker as a child process, on a directory of its own and free ports."""

from collections.abc import Mapping
from pathlib import Path

from tidemill.app.held_ports import HeldPorts
from tidemill.app.listeners import HTTP_LISTENER, PEER_LISTENER, Address
from tidemill.testing.process import Process, environment_of
from tidemill.testing.served import Served


class Broker(Served):
    """A running broker."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        """Start a broker whose data and log are in `directory`, with these configuration keys.  Raise BrokerFailed."""
        super().__init__()
        self._ports = HeldPorts()
        try:
            http = str(self._ports.take(Address("127.0.0.1", 0)))  # clients ask for it: it is in the configuration
            own = {
                "log.dirs": str(directory / "data"),
                "listeners": "PLAINTEXT://127.0.0.1:0",
                HTTP_LISTENER: http,
                PEER_LISTENER: "127.0.0.1:0",
            }
            options = [option for key, value in own.items() for option in ("--set", f"{key}={value}")]
            process = Process("the broker", options, log=directory / "broker.log", environment=environment_of(settings))
            ready = process.ready_line()
        except BaseException:
            self._ports.close()
            raise
        self.processes[1] = process
        self._kafka[1], self._http[1] = ready["kafka"], ready["http"]

    def close(self) -> None:
        self.processes[1].stop()
        self._ports.close()
