"""A whole cluster for unit tests: `BrokerWorld`s that share a clock and exchange frames through queues.

    world = ClusterWorld()                                  # three brokers, one cluster
    world.create("flights")                                 # three replicas, led by broker 1
    world.lead("flights", by=2)                             # transferred and confirmed
    response = world[2].ask(produce.Request(...))

Frames arrive in the order in which they were sent, one per step, unless they are held.  Nothing happens between calls.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Any

from tests.unit.broker.broker_world import LISTENER, BrokerWorld, HandClock
from tidemill.broker.broker import Broker
from tidemill.broker.coordinators.coordinator_registration import AnyRegistration
from tidemill.broker.startup import wiring
from tidemill.metadata.feature_levels import NEWEST
from tidemill.metadata.metadata_records import PEER_ENDPOINT, Endpoint
from tidemill.metadata.topics import CreateTopics, NewTopic
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_resolution import NOTHING
from tidemill.model.shard import METADATA_SHARD
from tidemill.peer.hello import Hello
from tidemill.peer.link import Buffer, LinkOwner
from tidemill.shard.shard import Shard
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.storage.data_directory import DirectoryProblem

TICK_MS = 50
UNKNOWN_SECTION = b"\xc8" + (4).to_bytes(4) + b"new!"  # kind 200, length, and a body
WAIT_MS_MAX = 20_000


class SeededEntropy:
    """Random bytes for one broker, seeded so that the directory ids and incarnations of brokers differ."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class MemoryLink:
    """One end of a connection.  `frames` holds what this end has sent and the other end has not yet received."""

    def __init__(self, hello: Hello, owner: LinkOwner) -> None:
        self.hello = hello  # the Hello of the other end
        self.owner = owner  # the owner of this end
        self.other: MemoryLink
        self.frames: deque[bytearray] = deque()
        self.is_open = True

    def send(self, parts: Sequence[Buffer]) -> bool:
        if self.is_open:
            self.frames.append(bytearray(b"".join(parts)))
        return self.is_open

    def close(self, why: str) -> None:
        for end in (self, self.other):
            if end.is_open:
                end.is_open = False
                end.frames.clear()
                end.owner.lost(end, why)


class Network:
    def __init__(self) -> None:
        self.listening: dict[str, LinkOwner] = {}
        self.links: list[MemoryLink] = []
        self.cut: set[str] = set()  # addresses of isolated brokers
        self.newer: set[str] = set()  # addresses of brokers whose frames end with a section that others do not know
        self.held: Callable[[LinkOwner, LinkOwner], bool] = _nothing_held  # whether to hold back frames (from, to)

    def dial(self, owner: LinkOwner, address: str) -> None:
        accepting = self.listening.get(address)
        mine = owner.hello()
        if accepting is None or accepting is owner or self.cut & {address, mine.address}:
            return
        if any(link.owner is owner and link.other.owner is accepting for link in self.links if link.is_open):
            return
        here, there = MemoryLink(accepting.hello(), owner), MemoryLink(mine, accepting)
        here.other, there.other = there, here
        self.links = [*(link for link in self.links if link.is_open), here, there]
        assert accepting.linked(there) is None and owner.linked(here) is None

    def step(self) -> bool:
        for link in self.links:
            if link.frames and not self.held(link.owner, link.other.owner):
                # For fairness, try this link last in the next step.
                self.links = [*(it for it in self.links if it is not link), link]
                frame = link.frames.popleft()
                if link.owner.hello().address in self.newer:
                    frame += UNKNOWN_SECTION
                link.other.owner.received(link.other, memoryview(frame))
                return True
        return False

    def cut_off(self, address: str) -> None:
        """Isolate the broker at `address`: close its links at both ends."""
        self.cut.add(address)
        for link in [*self.links]:
            if link.is_open and address in (link.hello.address, link.other.hello.address):
                link.close("cut off")


class MemoryLinks:
    """An implementation of `peer.link.Links` on a `Network`."""

    last_failure: str | None = None  # always None: a broker that is not running does not count as a failure
    last_refusal: str | None = None  # always None: all brokers have the same settings

    def __init__(self, network: Network, owner: LinkOwner, address: str) -> None:
        self._network = network
        self._owner = owner
        self._address = address
        self._wanted: Collection[str] = ()

    def reach(self, addresses: Collection[str]) -> None:
        self._wanted = addresses
        self.redial()

    def redial(self) -> None:
        for address in self._wanted:
            self._network.dial(self._owner, address)

    async def listen(self, last_address: str) -> str:
        self._network.listening[self._address] = self._owner
        return self._address

    def close(self) -> None:
        self._wanted = ()
        for link in [*self._network.links]:
            if link.owner is self._owner and link.is_open:
                link.close("stopped")


class Node(BrokerWorld):
    """One broker of the cluster; `step` and `pass_time` act on the whole cluster."""

    def __init__(
        self,
        cluster: "ClusterWorld",
        number: int,
        static: Mapping[str, str],
        disk: SimulatedDisk | None = None,
        newest_level: int = NEWEST,
    ) -> None:
        self.cluster = cluster
        self.number = number
        self.address = f"127.0.0.1:{9300 + number}"
        self.links: list[MemoryLinks] = []
        super().__init__(
            static,
            disk=disk,
            clock=cluster.clock,
            endpoints=endpoints_of(number),
            extra_coordinators=cluster.extra_coordinators,
            newest_level=newest_level,
        )

    async def _up(self) -> Broker:
        self.entropy = SeededEntropy(self.number)
        join = [node.address for node in self.cluster.nodes[:1]]
        self.cluster.nodes.append(self)

        def links(owner: LinkOwner) -> MemoryLinks:
            self.links.append(MemoryLinks(self.cluster.network, owner, self.address))
            return self.links[-1]

        machine = self._machine(links)
        broker_id = BrokerId(self.number)

        async def up() -> Broker:
            identity, store, _ = await wiring.open_directory(
                self.disk, broker_id, join, machine, self.options, newest_level=self.newest_level
            )
            self.broker = broker = wiring.make(
                identity, store, self.static, machine, self.extra_coordinators, self.newest_level
            )
            await wiring.bring_up(broker, addresses=join)
            await wiring.register_broker(broker, self.endpoints, f"rack-{self.number}")
            return broker

        task = asyncio.get_running_loop().create_task(up())
        while not task.done():
            self.pass_time(TICK_MS)
            await asyncio.sleep(0)
        return task.result()

    def step(self) -> bool:
        return self.cluster.step()

    def step_alone(self) -> bool:
        return super().step()

    def pass_time(self, duration_ms: int) -> None:
        self.cluster.pass_time(duration_ms)

    def fire_due(self) -> None:
        due = [timer for timer in self.timers if timer.due_ms <= self.clock.now_ms]
        self.timers = [timer for timer in self.timers if timer not in due and not timer.is_cancelled]
        for timer in due:
            if not timer.is_cancelled:
                timer.callback()

    def shard(self, topic: str, number: int = 0) -> Shard:
        shard = self.partition(topic, number).shard
        assert isinstance(shard, Shard)
        return shard


class ClusterWorld:
    def __init__(
        self,
        brokers: int = 3,
        static: Mapping[str, str] = NOTHING,
        *,
        extra_coordinators: Sequence[AnyRegistration] = (),
        newest_level: int = NEWEST,
    ) -> None:
        self.extra_coordinators = extra_coordinators
        self.clock = HandClock()
        self.network = Network()
        self.nodes: list[Node] = []  # broker 1 comes first
        self.stopped: set[int] = set()  # brokers that neither execute work nor tick
        for number in range(1, brokers + 1):
            Node(self, number, static, newest_level=newest_level)
        self.until(lambda: all(len(node.broker.cluster.live()) == brokers for node in self.nodes), "all meet")
        voters = brokers if brokers % 2 else brokers - 1
        metadata = self[1].broker.shard_table.shards[METADATA_SHARD]
        self.until(lambda: len(metadata.replica.voters) == voters, "the metadata has its voters")

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number - 1]

    @property
    def _running(self) -> list[Node]:
        return [node for node in self.nodes if node.number not in self.stopped]

    # Methods that let time pass.

    def step(self) -> bool:
        return any(node.step_alone() for node in self._running) or self.network.step()

    def stabilize(self) -> None:
        self.nodes[0].stabilize()

    def pass_time(self, duration_ms: int) -> None:
        """Move the clock in steps of TICK_MS.  In each step, every running broker fires its due timers and ticks."""
        end_ms = self.clock.now_ms + duration_ms
        while self.clock.now_ms < end_ms:
            self.clock.now_ms = min(end_ms, self.clock.now_ms + TICK_MS)
            for node in self._running:
                for links in node.links:
                    links.redial()
                node.fire_due()
                if hasattr(node, "broker"):
                    node.broker.tick()
            self.stabilize()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        self.stabilize()
        deadline_ms = self.clock.now_ms + WAIT_MS_MAX
        while not condition():
            assert self.clock.now_ms < deadline_ms, f"not within {WAIT_MS_MAX} ms: {what}"
            self.pass_time(TICK_MS)

    def steps_until(self, condition: Callable[[], bool], what: str) -> None:
        """Step until the condition holds, and execute nothing after that."""
        deadline_ms = self.clock.now_ms + WAIT_MS_MAX
        while not condition():
            if not self.step():
                assert self.clock.now_ms < deadline_ms, f"not within {WAIT_MS_MAX} ms: {what}"
                self._tick_unstable()

    def _tick_unstable(self) -> None:
        self.clock.now_ms += TICK_MS
        for node in self._running:
            node.fire_due()
            node.broker.tick()

    # Methods that cause faults.

    def cut_off(self, number: int) -> None:
        """Isolate a broker: close its links, and connect it to no other broker until `heal` is called."""
        self.network.cut_off(self[number].address)

    def heal(self) -> None:
        self.network.cut.clear()
        self.pass_time(TICK_MS)

    def restart(self, number: int, *, newest_level: int = NEWEST) -> None:
        """
        Kill a broker, and start it again with the same disk, with a version that supports feature levels up to
        `newest_level`.  If it does not start, it is down, and the error is raised.
        """
        old = self[number]
        self.nodes.remove(old)
        for links in old.links:
            links.close()
        del self.network.listening[old.address]
        try:
            Node(self, number, old.static, old.disk.after_kill(), newest_level)
        except DirectoryProblem:
            self.nodes = [node for node in self.nodes if node.number != number]
            raise
        self.nodes.sort(key=lambda node: node.number)

    def hold(self, *, to: Collection[int] = (), sender: Collection[int] = ()) -> None:
        """Hold back frames to the brokers `to` or from the brokers `sender`.  A further call replaces both sets."""
        receivers = {self[number].address for number in to}
        senders = {self[number].address for number in sender}

        def held(source: LinkOwner, destination: LinkOwner) -> bool:
            return source.hello().address in senders or destination.hello().address in receivers

        self.network.held = held

    # Setup steps that most tests share.

    @property
    def controller(self) -> Node:
        self.until(lambda: any(node.broker.controller.leads for node in self.nodes), "a controller")
        return next(node for node in self.nodes if node.broker.controller.leads)

    def create(self, name: str, partitions: int = 1, *, brokers: Sequence[int] = (1, 2, 3), **settings: str) -> None:
        """Create a topic and wait until every broker knows its leaders.  The first of `brokers` is preferred."""
        self.create_assigned(name, [brokers] * partitions, **settings)

    def create_assigned(self, name: str, assignments: Sequence[Sequence[int]], **settings: str) -> None:
        """Likewise, with the brokers of each partition.  Those with other brokers are another shard."""
        named = tuple((key.replace("_", "."), value) for key, value in settings.items())
        partitions = len(assignments)
        topic = NewTopic(
            name=name,
            partition_count=-1,
            replication_factor=-1,
            assignments=tuple((it, tuple(map(BrokerId, brokers))) for it, brokers in enumerate(assignments)),
            settings=named,
        )
        created: list[Any] = []
        self.controller.broker.controller.submit(CreateTopics(topics=(topic,))).then(created.extend)
        self.until(lambda: bool(created), f"{name} is created")
        assert created[0].problem is None, created
        self.until(lambda: all(self.led_by(name, number) for number in range(partitions)), f"{name} is led")

    def led_by(self, topic: str, number: int = 0) -> int:
        """Return the leader on which all running brokers agree, or 0 if they disagree or none is known."""
        told: set[int] = set()
        for node in self._running:
            known = node.broker.image.topic(topic)
            leader = None if known is None else node.broker.cluster.leader_of(known, number)
            told.add(0 if leader is None else leader.broker_id)
        return told.pop() if len(told) == 1 else 0

    def lead(self, topic: str, number: int = 0, *, by: int) -> None:
        """Transfer leadership to a broker and wait until every broker knows about it."""
        if self.led_by(topic, number) != by:
            self.begin_to_lead(topic, number, by=by)
            self.until(lambda: self.led_by(topic, number) == by, f"broker {by} leads {topic}-{number}")

    def begin_to_lead(self, topic: str, number: int = 0, *, by: int) -> None:
        leader = next(node for node in self.nodes if node.shard(topic, number).is_serving)
        assert leader.shard(topic, number).transfer_leadership(self[by].broker.identity.voter)


def endpoints_of(number: int) -> tuple[Endpoint, ...]:
    return (
        Endpoint(LISTENER, "127.0.0.1", 9091 + number, "PLAINTEXT"),
        Endpoint(PEER_ENDPOINT, "127.0.0.1", 9300 + number, "PLAINTEXT"),
    )


def _nothing_held(_source: LinkOwner, _destination: LinkOwner) -> bool:
    return False
