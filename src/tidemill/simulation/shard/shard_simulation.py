"""Runs one shard's replicas on simulated time, network, disks and clocks, from one seed.

Only the Raft core is production code: simple nodes take the place of brokers, shards and journals, so that tens of runs
fit into a second.  `simulation/cluster/cluster.py` simulates whole brokers.

    ShardSimulation(seed).run()   runs with faults, then heals all nodes, which must agree; raises InvariantViolation
"""

from dataclasses import replace
from random import Random
from typing import Final

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.voters import Membership
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.shard.shard_check import ShardCheck
from tidemill.simulation.shard.shard_faults import ShardFaults
from tidemill.simulation.shard.shard_knobs import ShardKnobs
from tidemill.simulation.shard.shard_network import ShardNetwork
from tidemill.simulation.shard.shard_world import ShardWorld
from tidemill.simulation.shard.simulated_node import SimulatedNode

CLIENT_MS: Final = 20  # the time between the client's proposals
HEAL_MS: Final = 60_000  # the healed nodes must agree within this time


class ShardSimulation:
    def __init__(self, seed: int, knobs: ShardKnobs | None = None) -> None:
        random = Random(seed)
        damage_random = Random(~seed)  # separate, so that drawing from it does not change the values from `random`
        if knobs is None:
            drawn = ShardKnobs.draw(random)
            damage, full_ring = (damage_random.choice((0.0, 0.0, 0.05, 0.2)) for _ in range(2))
            knobs = replace(drawn, damage=damage, full_ring=full_ring)
        self.nodes: dict[ReplicaKey, SimulatedNode] = {}
        self.world = ShardWorld(seed, random, knobs)
        self.network = ShardNetwork(self.world, self.nodes)
        self.check = ShardCheck(self.world)
        self.faults = ShardFaults(self.world, self.network, self.nodes, damage_random)
        self._proposals = 0
        count = knobs.nodes + knobs.spare
        voters = [ReplicaKey(BrokerId(number), DirectoryId(b"%016d" % number)) for number in range(1, count + 1)]
        membership = Membership(tuple(voters[: knobs.nodes]))
        for voter in voters:
            self.nodes[voter] = SimulatedNode(self.world, self.network, self.check, voter, membership)

    def run(self) -> None:
        """
        Run with faults, then heal and wait until the nodes agree.  Raise `InvariantViolation` if an invariant is
        violated.
        """
        world = self.world
        for node in self.nodes.values():
            node.start()
        world.after(CLIENT_MS, self._request)
        self.faults.begin()
        world.run_until(world.knobs.duration_ms)
        self.faults.heal()
        deadline_ms = world.now_ms + HEAL_MS
        while not self._agrees():
            if world.now_ms >= deadline_ms:
                raise InvariantViolation(f"seed {world.seed}: the healed nodes do not agree: {self._states()}")
            world.run_until(world.now_ms + 500)
        self.check.check_acknowledged()

    def _request(self) -> None:
        """Propose an entry to every node that leads, and sometimes read from it."""
        self.world.after(CLIENT_MS * (10 if self.world.is_healed else 1), self._request)
        leaders = [node for node in self.nodes.values() if node.leads and not node.is_paused]
        for leader in leaders:
            self._proposals += 1
            leader.propose(b"%d" % self._proposals)
            if self._proposals % 5 == 0 or len(leaders) > 1:  # if there are several leaders, all except one are stale
                leader.read()

    def _agrees(self) -> bool:
        """
        Return whether a leader is confirmed, and all members have the first entry of its term and all acknowledged
        entries.
        """
        leader = next(
            (node.replica for node in self.nodes.values() if node.replica and node.replica.is_confirmed), None
        )
        if leader is None:
            return False
        least = min(self._stable_index(voter) for voter in leader.membership.members)
        return least >= self.check.newest_acknowledged and least >= leader.term_start_index

    def _stable_index(self, voter: ReplicaKey) -> int:
        replica = self.nodes[voter].replica
        return 0 if replica is None else replica.stable_index

    def _states(self) -> list[str]:
        return [
            f"{node.voter.broker_id} {r.role} term {r.term} last {r.last_index} durable {r.durable_index} "
            f"commit {r.commit_index} follows {r.leader and r.leader.broker_id}"
            if (r := node.replica)
            else f"{node.voter.broker_id} down"
            for node in self.nodes.values()
        ]
