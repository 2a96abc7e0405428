"""Broker: everything one process serves requests from.  The entrance of this folder.

Opened in this order, each before the next: data directory, store, metadata shard (shard 0), its image, all other shards, listeners.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidemill.broker.controller_host import ControllerHost
from tidemill.broker.ready_loop import ReadyLoop, Turns
from tidemill.broker.shard_table import ShardTable
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.topic_configs import TopicConfigs
from tidemill.model.clock import Clock
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.entropy import Entropy
from tidemill.shard.jobs import Jobs
from tidemill.storage.data_directory import Identity
from tidemill.storage.store import Store
from tidemill.telemetry.metrics import BrokerMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the broker asks of the machine, or of its twin."""

    turns: Turns
    clock: Clock
    entropy: Entropy
    journal_jobs: Jobs
    background_jobs: Jobs
    read_jobs: Jobs
    call_later: Callable[[float, Callable[[], None]], object]  # seconds; gives something with `cancel()`
    failed: Callable[[BaseException], None]  # the machine is wrong: end the process


@dataclass(frozen=True, slots=True)
class Listening:
    """Where clients reach a listener: what Metadata tells those that came through it."""

    name: str
    host: str
    port: int


class Broker:
    def __init__(self, store: Store, identity: Identity, static: Mapping[str, str], machine: Machine) -> None:
        self.identity = identity
        self.broker_id = identity.broker_id
        self.static = static
        self.machine = machine
        self.clock = machine.clock
        self.store = store
        self.metrics = BrokerMetrics()
        self.configs = TopicConfigs(identity.broker_id, static)
        self.controller = ControllerHost(
            broker_id=identity.broker_id, static=static, entropy=machine.entropy, clock=machine.clock
        )
        self.shard_table = ShardTable(store, identity.voter, self.configs, machine.clock, self._wake)
        self.ready_loop = ReadyLoop(
            store,
            self.shard_table.shards,
            turns=machine.turns,
            clock=machine.clock,
            journal_jobs=machine.journal_jobs,
            background_jobs=machine.background_jobs,
            failed=machine.failed,
            counters=self.metrics.journal,
        )
        self.listening: dict[str, Listening] = {}
        self.is_ready = False
        self.is_stopping = False

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    @property
    def layers(self) -> BrokerLayers:
        """This broker's configuration: what it was started with, and what was altered since."""
        return self.image.broker_layers(self.broker_id, self.static)

    def _wake(self) -> None:
        self.ready_loop.wake()
