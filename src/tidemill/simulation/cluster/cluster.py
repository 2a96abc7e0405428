"""Runs whole brokers in one process: production wiring on simulated time, disks, clocks and network, from one seed.

    ClusterRun(seed).run()   runs with faults, then heals the cluster and checks it; raises InvariantViolation

The seed determines everything: runs with the same seed have the same `digest`, which covers every byte on the network.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha1
from random import Random
from typing import Any, Final

from tidemill.broker.coordinators.coordinator_registration import AnyRegistration
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_resolution import NOTHING
from tidemill.simulation.clients.administrator import Administrator
from tidemill.simulation.clients.client import Client
from tidemill.simulation.clients.history import History
from tidemill.simulation.clients.kafka_listener import KAFKA_PORT
from tidemill.simulation.clients.producer import Producer
from tidemill.simulation.clients.reader import Reader
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster_check import ClusterCheck
from tidemill.simulation.cluster.cluster_faults import ClusterFaults
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.simulation.machine.event_loop import US, Timeline, begin_loop
from tidemill.simulation.machine.links import PEER_PORT
from tidemill.simulation.machine.machine import seconds
from tidemill.simulation.machine.network import Network
from tidemill.storage.machine.shard_machine import MachineType
from tidemill.storage.partition.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET

TOPIC: Final = "flights"
HEAL_S: Final = 60  # a healed cluster must acknowledge and serve all records within this time
STEP_S: Final = 0.5  # the time between checks that everything is acknowledged and served
NO_EPOCH_YET: Final = (1 << 31) - 1
STATIC: Final = {
    "offsets.topic.num.partitions": "1",
    # Its delays are longer than these runs, and a disk that is full for a moment would make replicas move.
    "tidemill.rebalance.enable": "false",
}


class ClusterRun:
    def __init__(
        self,
        seed: int,
        knobs: ClusterKnobs | None = None,
        machine_types: tuple[MachineType, ...] = (),
        *,
        extra_coordinators: Sequence[AnyRegistration] = (),
        static: Mapping[str, str] = NOTHING,
    ) -> None:
        """
        Every broker hosts `machine_types` and `extra_coordinators` in addition to the built-in ones, and is started
        with the settings `static` in addition to `STATIC`.
        """
        self.seed = seed
        self._static = {**STATIC, **static}
        self._extra_coordinators = extra_coordinators
        self.random = Random(seed)
        self.knobs = ClusterKnobs.draw(self.random) if knobs is None else knobs
        self.timeline = Timeline()
        self.network = Network(self.timeline, self._fork())
        self.network.delay_mean_us, self.network.tail = self.knobs.delay_us, self.knobs.tail
        self.history = History()
        self._machine_types = machine_types
        self.machines = [self._machine(number) for number in range(1, self.knobs.brokers + 1)]
        self.check = ClusterCheck(self.machines)
        for machine in self.machines:
            machine.after_turn = self.check.check_after_turn
        self.faults = ClusterFaults(
            self.timeline, self.network, self.machines, self.knobs, self._fork(), self.check.may_lose
        )
        self._loop = begin_loop(self.timeline)
        self._loop.failed = self._client_failed
        self._producers: list[Producer] = []
        self._producing = 0
        self._administering = False
        self._is_probed = False
        self._readers: dict[tuple[str, int], Reader] = {}
        self._administrator: Administrator | None = None
        self._client: Client | None = None
        self._answers: list[Any] = []

    @property
    def digest(self) -> str:
        """A digest of everything that was sent and acknowledged, including timestamps."""
        found = sha1(self.network.digest.digest() + self.history.digest.digest(), usedforsecurity=False)
        found.update(f"{self.timeline.now_us} {self.timeline.events}".encode())
        return found.hexdigest()

    def run(self) -> None:
        """Run the simulation.  Raise `InvariantViolation` if an invariant is broken, and re-raise any other error."""
        try:
            self._run()
        except InvariantViolation as broken:
            raise InvariantViolation(
                f"seed {self.seed}, {self.timeline.now_us // 1000} ms: {broken}; {self.knobs}"
            ) from broken
        except Exception as error:
            error.add_note(f"seed {self.seed}, {self.timeline.now_us // 1000} ms; {self.knobs}")
            raise

    def _run(self) -> None:
        for machine in self.machines:
            machine.start()
        self._in_client(self._prepare())
        self._until(lambda: bool(self._readers), "the topic was not created")
        self.faults.begin()
        self._pass_faults()
        self.faults.heal_a_quorum()
        for producer in self._producers:
            producer.is_stopping = True
        self._until(lambda: not self._producing, "a quorum has not acknowledged everything")
        self._in_client(self._probe())
        self._until(lambda: self._is_probed, "a quorum has not acknowledged a probe of every shard")
        self._until(self._is_read, "a quorum has not served everything")
        self._heal_all()
        if self._administrator is not None:
            self._administrator.is_stopping = True
        self._until(lambda: not self._administering, "the administrator has not finished")
        self.history.check_all_read()
        self._until(self.check.agree, "replicas do not agree")
        self.check.check_deleted(self.history)
        self._check_epochs()
        if self.random.random() < 0.5:
            self._lose_all_power()

    def _pass_faults(self) -> None:
        """Let the time pass in which there are faults."""
        self.timeline.run_until(self.timeline.now_us + seconds(self.knobs.duration_s))

    def _heal_all(self) -> None:
        self.faults.heal_all()

    def _machine(self, number: int) -> BrokerMachine:
        machine = BrokerMachine(
            BrokerId(number),
            self.timeline,
            self.network,
            self._fork(),
            options=self.knobs.options,
            static={**self._static, **({"log.roll.ms": str(self.knobs.roll_ms)} if self.knobs.roll_ms else {})},
            clock_rate=self.knobs.clock_rate,
            join=(f"broker-1:{PEER_PORT}",) if number > 1 else (),
            machine_types=self._machine_types,
            extra_coordinators=self._extra_coordinators,
        )
        machine.pace.sync_us = self.knobs.sync_us
        return machine

    def _fork(self) -> Random:
        return Random(self.random.getrandbits(64))

    # Running the clients.

    def _in_client(self, coroutine: Any, done: Callable[[], None] | None = None) -> None:
        def start() -> None:
            task = self._loop.create_task(coroutine)
            task.add_done_callback(ended)

        def ended(task: Any) -> None:
            if task.exception() is not None:
                raise task.exception()
            if done is not None:
                done()

        self._loop.call_soon(start)

    def _new_client(self, name: str) -> Client:
        bootstrap = tuple((machine.name, KAFKA_PORT) for machine in self.machines)
        return Client(name, self._loop, self.network, bootstrap, self._fork())

    async def _prepare(self) -> None:
        knobs = self.knobs
        self._client = self._new_client("admin")
        await self._client.create_topic(TOPIC, knobs.partitions, min(knobs.brokers, 3))
        for number in range(knobs.partitions):
            reader = Reader(self._new_client(f"reader-{number}"), self.history, TOPIC, number)
            self._in_client(reader.run())
            for count in range(knobs.producers):
                client = self._new_client(f"producer-{number}-{count}")
                producer = Producer(
                    client, self.history, TOPIC, number, in_flight=knobs.in_flight, acks=knobs.acks, keys=knobs.keys
                )
                self._producers.append(producer)
                self._producing += 1
                random = self._fork()
                self._in_client(producer.run(self._paces(random)), self._produced)
            self._readers[TOPIC, number] = reader
        if knobs.administration_s:
            self._administer(self._client)

    def _administer(self, client: Client) -> None:
        random = self._fork()
        self._administrator = Administrator(
            client,
            self._new_client,
            self.history,
            self._readers,
            replicas=min(self.knobs.brokers, 3),
            pause_s=lambda: random.expovariate(1 / self.knobs.administration_s),
            producer_pause_s=self._paces(random),
        )
        self._administering = True
        self._in_client(self._administrator.run(), self._administered)

    def _administered(self) -> None:
        self._administering = False

    async def _probe(self) -> None:
        """Write to the metadata shard, and to every partition of `TOPIC` and thus to each of the topic's shards."""
        assert self._client is not None, "there was no client"
        await self._client.create_topic("probe", 1, 1)
        await self._client.delete_topic("probe")  # its only replica could be on a disk that is lost later
        for number in range(self.knobs.partitions):
            client = self._new_client(f"probe-{number}")
            producer = Producer(client, self.history, TOPIC, number, in_flight=1, acks=self.knobs.acks, batches_max=1)
            await producer.run(lambda: 0.0)
        self._is_probed = True

    def _paces(self, random: Random) -> Callable[[], float]:
        return lambda: random.expovariate(1 / self.knobs.pause_s)

    def _produced(self) -> None:
        self._producing -= 1

    def _client_failed(self, error: BaseException) -> None:
        raise error

    def _until(self, holds: Callable[[], bool], otherwise: str) -> None:
        deadline_us = self.timeline.now_us + HEAL_S * US
        while not holds():
            if self.timeline.now_us >= deadline_us:
                raise InvariantViolation(f"within {HEAL_S} s {otherwise}: {self.check.describe()}")
            self.timeline.run_until(self.timeline.now_us + seconds(STEP_S))

    def _is_read(self) -> bool:
        return all(
            len(self.history.partition(TOPIC, number).read) >= len(self.history.partition(TOPIC, number).acknowledged)
            for number in range(self.knobs.partitions)
        )

    # Checks at the end of a run.

    def _check_epochs(self) -> None:
        """Check that the leader's answer for the end of each epoch agrees with the records (KIP-320).

        This includes epochs without records and epochs whose entries were truncated.  An epoch above all leaders' terms
        has no end.
        """
        client = self._client
        assert client is not None, "there was no client"
        self._answers = []
        wanted = 0
        for number in range(self.knobs.partitions):
            partition = self.history.partition(TOPIC, number)
            epochs = [partition.read[offset].epoch for offset in range(partition.delete_asked, len(partition.read))]
            if not epochs:
                continue
            ends = {
                epoch: partition.delete_asked + bisect_right(epochs, epoch)
                for epoch in range(epochs[0], epochs[-1] + 1)
            }
            for epoch, end_offset in [*ends.items(), (NO_EPOCH_YET, UNDEFINED_OFFSET)]:
                wanted += 1
                self._in_client(self._check_epoch(client, number, epoch, end_offset))
        self._until(lambda: len(self._answers) == wanted, "not every epoch's end was answered")

    async def _check_epoch(self, client: Client, number: int, epoch: int, end_offset: int) -> None:
        """
        Check the end of one epoch.  A leader without this epoch returns the previous epoch, which has the same end.
        """
        found_epoch, found_end = await client.epoch_end(TOPIC, number, epoch)
        read = self.history.partition(TOPIC, number).read
        newest = read[end_offset - 1].epoch if end_offset >= 0 else UNDEFINED_EPOCH
        latest = epoch if end_offset >= 0 else UNDEFINED_EPOCH
        if found_end != end_offset or not newest <= found_epoch <= latest:
            raise InvariantViolation(
                f"{TOPIC}-{number}: epoch {epoch} ends at {end_offset}, the leader answers {(found_epoch, found_end)}"
            )
        self._answers.append(found_epoch)

    def _lose_all_power(self) -> None:
        """
        Make all brokers lose power and therefore their unsynced data.  A reader that starts from the beginning must
        then find all records that were read before.
        """
        for machine in self.machines:
            machine.lose_power(ALL_LOST)
            machine.start()
        again = History()
        for number in range(self.knobs.partitions):
            known = self.history.partition(TOPIC, number)
            again.partition(TOPIC, number).read = dict(known.read)
            again.partition(TOPIC, number).delete_asked = known.delete_asked
        readers = [
            Reader(self._new_client(f"again-{number}"), again, TOPIC, number) for number in range(self.knobs.partitions)
        ]
        for reader in readers:
            self._in_client(reader.run())
        ends = [len(self.history.partition(TOPIC, number).read) for number in range(self.knobs.partitions)]
        self._until(
            lambda: all(reader.offset >= end for reader, end in zip(readers, ends, strict=True)),
            "records that were read are missing after the power loss of all",
        )
