"""A RabbitMQ node of Debian's package `rabbitmq-server`, with its own data, ports and port mapper (epmd)."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from benchmarks.broker import BrokerProcess, Unavailable, cpu_seconds, free_port, resident_bytes, wait_for_port

SERVER: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
READY_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 20.0


class RabbitMq(BrokerProcess):
    def __init__(self, directory: Path) -> None:
        """Raise Unavailable if the package, or the client library pika, is missing."""
        epmd = shutil.which("epmd")
        if not SERVER.exists() or epmd is None:
            raise Unavailable("RabbitMQ is not installed; Debian's package is rabbitmq-server")
        try:
            import pika  # noqa: F401
        except ImportError:
            raise Unavailable("pika, the client of RabbitMQ, is not installed") from None
        directory.mkdir()
        self.port, mapper_port = free_port(), free_port()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),  # the cookie is there
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(mapper_port),
            "RABBITMQ_NODENAME": f"bench{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(directory / "data"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "none"),
            "RABBITMQ_CONFIG_FILE": str(directory / "none"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        self._mapper = subprocess.Popen([epmd, "-address", "127.0.0.1", "-port", str(mapper_port)], env=environment)
        # Its shell waits for the node, which is its child.
        super().__init__("RabbitMQ", [str(SERVER)], log=directory / "server.log", environment=environment)
        self.node_pid = 0

    def wait_until_ready(self) -> None:
        wait_for_port(self.port, self, seconds_max=READY_SECONDS_MAX)
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        (self.node_pid,) = (int(it) for it in children if Path(f"/proc/{it}/comm").read_text().startswith("beam"))

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.node_pid)

    def resident_bytes(self) -> int:
        return resident_bytes(self.node_pid)

    def stop(self) -> None:
        """Stop the node, and then its port mapper."""
        if self.node_pid and not self.has_ended():
            os.kill(self.node_pid, 15)
            until = time.monotonic() + STOP_SECONDS_MAX
            while not self.has_ended() and time.monotonic() < until:
                time.sleep(0.05)  # poll: the shell ends after its child
        super().stop()
        self._mapper.terminate()
        self._mapper.wait(STOP_SECONDS_MAX)
