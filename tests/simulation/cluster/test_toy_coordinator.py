"""A coordinator with its own internal topic keeps its state on simulated brokers whose leaders fail."""

from random import Random
from typing import Any

import pytest

from tests.simulation.cluster.test_scenarios import knobs, pass_time, voters
from tests.toy.member_sets import MEMBER_SETS, Add, Read, Rejected
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.simulation.machine.machine import seconds

KEY = "k"
BURST = 20


class Client:
    """Adds members by direct calls to the broker that hosts the partition of KEY, and records the acknowledged ones."""

    def __init__(self, run: ClusterRun) -> None:
        self.run = run
        self.sent: list[str] = []
        self.acknowledged: set[str] = set()
        self.led: list[str] = []  # brokers that acknowledged members, in order

    def leader(self) -> BrokerMachine | None:
        """Return the broker that has loaded the partition of KEY and serves it, if there is one."""
        for machine in self.run.machines:
            for hosted in [] if machine.broker is None else machine.broker.coordinators.of(MEMBER_SETS).hosted():
                if hosted.is_loaded and hosted.partition.shard.is_serving:
                    return machine
        return None

    def wait_for_leader(self) -> BrokerMachine:
        pass_time(self.run, lambda: self.leader() is not None)
        machine = self.leader()
        assert machine is not None
        return machine

    def send(self, machine: BrokerMachine) -> None:
        """Submit several requests together; each is answered after its commit."""
        assert machine.broker is not None and machine.loop is not None
        host = machine.broker.coordinators.of(MEMBER_SETS)
        for _ in range(BURST):
            member = f"m{len(self.sent):04}"
            self.sent.append(member)

            def answered(reply: int | Rejected, member: str = member) -> None:
                if not isinstance(reply, Rejected):
                    self.acknowledged.add(member)
                    if self.led[-1:] != [machine.name]:
                        self.led.append(machine.name)

            machine.loop.call_soon(host.ask, KEY, Add(KEY, (member,)), answered)

    def read(self) -> set[str]:
        replies: list[Any] = []

        def is_answered() -> bool:
            machine = self.leader()
            if machine is not None and machine.broker is not None and machine.loop is not None:
                host = machine.broker.coordinators.of(MEMBER_SETS)
                machine.loop.call_soon(host.ask, KEY, Read(KEY), replies.append)
            return any(not isinstance(reply, Rejected) for reply in replies)

        pass_time(self.run, is_answered)
        return set(next(reply for reply in replies if not isinstance(reply, Rejected)))


@pytest.mark.parametrize("seed", range(4))
def test_what_a_toy_coordinator_acknowledged_survives_its_leaders(seed: int) -> None:
    """
    The leader repeatedly fails with requests in flight: it is killed, loses power, or loses contact with the others.
    The next leader has every acknowledged member, and none that was never sent.
    """
    run = ClusterRun(seed, knobs(3).without_faults(), extra_coordinators=(MEMBER_SETS,))
    random = Random(seed)
    for machine in run.machines:
        machine.start()
    pass_time(run, lambda: all(machine.is_ready and voters(machine) == 3 for machine in run.machines), 90)
    client = Client(run)
    client.send(run.machines[seed % 3])  # creates the topic
    client.wait_for_leader()

    for fault in ("kill", "power", "isolate", "transfer") * 2:
        leader = client.wait_for_leader()
        client.send(leader)
        run.timeline.run_until(run.timeline.now_us + seconds(random.uniform(0, 0.005)))
        _strike(run, leader, fault)
        if fault != "transfer":
            pass_time(run, lambda leader=leader: client.leader() not in (None, leader))
        client.send(client.wait_for_leader())
        run.timeline.run_until(run.timeline.now_us + seconds(0.5))
        _heal(run, leader, fault)
        pass_time(run, lambda: all(machine.is_ready for machine in run.machines), 90)
    found = client.read()

    assert set() == client.acknowledged - found
    assert set() == found - set(client.sent)
    assert len(client.led) >= 4 and len(client.acknowledged) >= 4 * BURST


def _strike(run: ClusterRun, leader: BrokerMachine, fault: str) -> None:
    match fault:
        case "kill":
            leader.kill()
        case "power":
            leader.lose_power(ALL_LOST)
        case "isolate":
            for other in run.machines:
                if other is not leader:
                    run.network.blocked |= {(leader.name, other.name), (other.name, leader.name)}
        case "transfer":
            assert leader.broker is not None
            hosted = leader.broker.coordinators.of(MEMBER_SETS).hosted()
            for shard in {it.partition.shard.log.shard_id for it in hosted}:
                leader.broker.shard_table.shards[shard].transfer_leadership()


def _heal(run: ClusterRun, leader: BrokerMachine, fault: str) -> None:
    if fault in ("kill", "power"):
        leader.start()
    elif fault == "isolate":
        run.network.heal()
