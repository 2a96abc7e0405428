"""Injects faults into a simulated cluster, each with its probability per second from `ClusterKnobs`, and ends them."""

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from random import Random
from typing import Final

from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.machine.crash_fate import ALL_KEPT, ALL_LOST, Fate, Mix
from tidemill.simulation.machine.event_loop import US, Timeline
from tidemill.simulation.machine.links import PEER_PORT
from tidemill.simulation.machine.machine import seconds
from tidemill.simulation.machine.network import Network

WRONG_MS_MAX: Final = 50 * 60_000  # the largest clock error; brokers reject client timestamps more than an hour ahead
ROOM_BYTES_MAX: Final = 300 << 20  # the largest free space of a disk that counts as full


class Fault(StrEnum):
    KILL = "killed"
    POWER = "loses power"
    POWER_OF_ALL = "all brokers lose power"
    CRASH_MIDWAY = "is to end in the middle of an operation"
    STOP = "is stopped"
    WIPE = "loses its disk"
    ROT = "has a flipped bit"
    PAUSE = "pauses"
    CLOCK_JUMP = "has its wall clock moved"
    DISK_FULL = "has a full disk"
    FAILED_SYNC = "has a failing sync"
    SLOW_DISK = "has a slow disk"
    STALLED_DISK = "has a disk that stalls"
    TRANSFER_LEADERSHIP = "transfers leadership"
    LOST_LINK = "a connection is lost"
    BOTH_WAYS = "partitioned in both directions"
    ONE_WAY = "partitioned in one direction"
    ONE_PAIR = "partitioned as a pair"
    LEADER_ISOLATED = "a leader is isolated"
    CLIENT_ISOLATED = "a client is isolated from a broker"
    EXCLUDED = "is down or isolated while the others heal"


class ClusterFaults:
    def __init__(
        self,
        timeline: Timeline,
        network: Network,
        machines: list[BrokerMachine],
        knobs: ClusterKnobs,
        random: Random,
        may_lose: Callable[[BrokerMachine], bool],
    ) -> None:
        """`may_lose` returns whether the cluster can survive the permanent loss of a machine."""
        self._timeline = timeline
        self._network = network
        self._machines = machines
        self._knobs = knobs
        self._random = random
        self._may_lose = may_lose
        self.is_over = False
        self._excluded: BrokerMachine | None = None
        self.happened: list[str] = []
        self.struck: Counter[Fault] = Counter()

    def begin(self) -> None:
        self._timeline.after(self._random.randrange(US), self._strike_all)

    def heal_a_quorum(self) -> None:
        """End the faults, but keep one broker down or isolated if the others form a majority without that broker."""
        self.is_over = True
        self._network.heal()
        for machine in self._machines:
            machine.pace.slowness, machine.pace.stalled_until_us = 1, 0
            machine.disk.free_bytes = machine.disk.fail_sync_at = machine.disk.cut_before = None
            if machine.loop is not None:
                machine.loop.resume()
        self._exclude_one()
        self._keep_running()

    def _exclude_one(self) -> None:
        found = [machine for machine in self._machines if self._may_lose(machine)]
        rotten = [machine for machine in found if machine.is_rotten]
        if not found:
            return
        chosen = self._random.choice(rotten or found)
        if rotten or self._chance(0.5):
            self._excluded = chosen
            if chosen.loop is not None:
                chosen.kill()
        else:
            for other in self._machines:
                if other is not chosen:
                    self._network.blocked |= {(chosen.name, other.name), (other.name, chosen.name)}
        self._record(Fault.EXCLUDED, f"{chosen.name}, {'down' if self._excluded else 'isolated'}")

    def heal_all(self) -> None:
        """End the faults for all brokers.  Damaged segments are repaired when a replica reads them."""
        self._network.heal()
        self._excluded = None

    def _others(self, machine: BrokerMachine) -> tuple[str, ...]:
        return tuple(f"{other.name}:{PEER_PORT}" for other in self._machines if other is not machine)

    def _keep_running(self) -> None:
        """
        Every second, restart the brokers whose processes have ended: earlier faults may still take effect and end a
        process.
        """
        for machine in self._machines:
            if machine.loop is None and machine is not self._excluded:
                machine.start()
        self._timeline.after(US, self._keep_running)

    def _strike_all(self) -> None:
        if self.is_over:
            return
        self._timeline.after(US, self._strike_all)
        for machine in self._machines:
            self._timeline.after(self._random.randrange(US), lambda machine=machine: self._strike(machine))  # type: ignore[misc]
        if self._chance(self._knobs.power_of_all):
            self._record(Fault.POWER_OF_ALL)
            for machine in self._machines:
                machine.lose_power(self._fate())
        if self._chance(self._knobs.lost_link):
            self._record(Fault.LOST_LINK)
            self._timeline.after(self._random.randrange(US), self._network.lose_connection)
        if self._network.blocked and self._chance(0.4):
            self._network.blocked.clear()
        elif self._chance(self._knobs.partition):
            self._partition()
        if self._knobs.client_isolation and self._chance(self._knobs.client_isolation):
            self._isolate_client()

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _record(self, fault: Fault, victim: str = "") -> None:
        self.struck[fault] += 1
        self.happened.append(f"{self._timeline.now_us // 1000} ms: {victim} {fault}")

    def _fate(self) -> Fate:
        if self._chance(self._knobs.lasting_pages):
            return ALL_KEPT
        return ALL_LOST if self._chance(0.4) else Mix(self._random.getrandbits(32))

    def _fate_of_crash(self) -> Fate | None:
        return None if self._chance(0.4) else self._fate()

    def _strike(self, machine: BrokerMachine) -> None:
        """Inject at most one fault that ends or stops the machine's process, and possibly other faults."""
        if self.is_over or machine not in self._machines:  # it may be lost for good
            return
        knobs, chance, random = self._knobs, self._chance, self._random
        if machine.loop is None:
            if chance(0.6):
                machine.start()
                if chance(knobs.crash_in_recovery):
                    self._record(Fault.CRASH_MIDWAY, machine.name)
                    machine.crash_within(random.randrange(40), self._fate_of_crash())
            elif chance(knobs.power):
                self._record(Fault.POWER, machine.name)
                machine.lose_power(self._fate())
            return
        if chance(knobs.kill):
            self._record(Fault.KILL, machine.name)
            machine.kill()
        elif chance(knobs.power):
            self._record(Fault.POWER, machine.name)
            machine.lose_power(self._fate())
        elif chance(knobs.crash_midway):
            self._record(Fault.CRASH_MIDWAY, machine.name)
            machine.crash_within(random.randrange(30), self._fate_of_crash())
        elif chance(knobs.stop):
            self._record(Fault.STOP, machine.name)
            machine.stop()
        elif chance(knobs.wipe) and self.may_be_destroyed(machine):
            self._record(Fault.WIPE, machine.name)
            machine.wipe(self._others(machine))
        elif chance(knobs.rot) and self.may_be_destroyed(machine):
            rotten = machine.rot_journal(self._others(machine), random) if chance(0.3) else machine.rot(random)
            if rotten is not None:
                self._record(Fault.ROT, f"{machine.name}, {rotten},")
        elif chance(knobs.pause):
            self._record(Fault.PAUSE, machine.name)
            machine.loop.pause(random.randrange(seconds(0.1), seconds(5)))
        elif chance(knobs.failed_sync):
            self._record(Fault.FAILED_SYNC, machine.name)
            machine.disk.fail_sync_at = machine.disk.operations + 1 + random.randrange(30)
        self._disturb(machine)

    def may_be_destroyed(self, machine: BrokerMachine) -> bool:
        """Return whether the machine may be lost permanently, which requires undamaged segments on all others."""
        return self._may_lose(machine) and not any(other.is_rotten for other in self._machines if other is not machine)

    def _transfer_leadership(self, machine: BrokerMachine) -> None:
        broker = machine.broker
        if broker is not None:
            for shard in broker.shard_table.shards.values():
                if self._chance(0.5):
                    shard.transfer_leadership()

    def _disturb(self, machine: BrokerMachine) -> None:
        knobs, chance, random = self._knobs, self._chance, self._random
        if machine.loop is not None and chance(knobs.transfer_leadership):
            self._record(Fault.TRANSFER_LEADERSHIP, machine.name)
            machine.loop.call_soon(self._transfer_leadership, machine)
        if chance(knobs.clock_jump):
            self._record(Fault.CLOCK_JUMP, machine.name)
            machine.wall.skew_us = random.randrange(-WRONG_MS_MAX, WRONG_MS_MAX) * 1_000
        if machine.disk.free_bytes is not None and chance(0.5):
            machine.disk.free_bytes = None
        elif chance(knobs.disk_full):
            self._record(Fault.DISK_FULL, machine.name)
            machine.disk.free_bytes = random.choice(
                (0, 4096, random.randrange(1 << 20), random.randrange(ROOM_BYTES_MAX))
            )
        machine.pace.slowness = 1
        if chance(knobs.slow_disk):
            self._record(Fault.SLOW_DISK, machine.name)
            machine.pace.slowness = random.choice((5, 50))
        if chance(knobs.stalled_disk):
            self._record(Fault.STALLED_DISK, machine.name)
            machine.pace.stalled_until_us = self._timeline.now_us + random.randrange(seconds(0.1), seconds(4))

    def _partition(self) -> None:
        """
        Partition the network between the brokers: in both directions, in one direction, or only between one pair of
        brokers.
        """
        names = [machine.name for machine in self._machines]
        if len(names) < 2:
            return
        self._random.shuffle(names)
        at = self._random.randrange(1, len(names))
        kind = self._random.choice((Fault.BOTH_WAYS, Fault.ONE_WAY, Fault.ONE_PAIR))
        if self._knobs.leader_isolation and self._chance(self._knobs.leader_isolation):
            leaders = [machine.name for machine in self._machines if machine.leads_others]
            if leaders:
                first = self._random.choice(leaders)
                # Move `first` to the front.  The sort is stable, so the other names stay shuffled.
                names.sort(key=lambda name: name != first)
                at = 1
                self._record(Fault.LEADER_ISOLATED, first)
        left, right = (names[:1], names[1:2]) if kind is Fault.ONE_PAIR else (names[:at], names[at:])
        self._record(kind, f"{left} and {right}")
        for one in left:
            for other in right:
                self._network.blocked.add((one, other))
                if kind is not Fault.ONE_WAY:
                    self._network.blocked.add((other, one))

    def _isolate_client(self) -> None:
        """
        Isolate a client from one broker, in one or both directions.  The other brokers and clients still reach both of
        them.
        """
        brokers = [machine.name for machine in self._machines]
        clients = [host for host in self._network.connected_hosts() if host not in brokers]
        if not clients:
            return
        client, broker = self._random.choice(clients), self._random.choice(brokers)
        ways = self._random.choice((((client, broker), (broker, client)), ((client, broker),), ((broker, client),)))
        self._record(Fault.CLIENT_ISOLATED, f"{client} and {broker}, {len(ways)} directions,")
        self._network.blocked.update(ways)
