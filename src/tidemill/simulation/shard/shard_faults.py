"""Injects faults into a simulated shard, each with its probability per second from `ShardKnobs`."""

from collections.abc import Mapping
from random import Random

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft import quorum
from tidemill.raft.replica import Replica
from tidemill.raft.voters import IllegalChange, Membership
from tidemill.simulation.shard.shard_network import ShardNetwork
from tidemill.simulation.shard.shard_world import ShardWorld
from tidemill.simulation.shard.simulated_node import SimulatedNode


class ShardFaults:
    def __init__(
        self, world: ShardWorld, network: ShardNetwork, nodes: Mapping[ReplicaKey, SimulatedNode], damage_random: Random
    ) -> None:
        """
        `damage_random` decides on damage and full journals; `world.random` decides on everything else.
        """
        self.damages = 0
        self._world = world
        self._network = network
        self._nodes = nodes
        self._damage_random = damage_random

    def begin(self) -> None:
        self._world.after(1_000, self._strike)

    def heal(self) -> None:
        """End all faults, and start the nodes that are down."""
        self._world.is_healed = True
        self._network.blocked.clear()
        for node in self._nodes.values():
            node.paused_until_ms = node.full_until_ms = 0
            if not node.is_up:
                node.start()

    def _strike(self) -> None:
        world = self._world
        if world.is_healed:
            return
        world.after(1_000, self._strike)
        random, knobs = world.random, world.knobs
        for node in self._nodes.values():
            self._strike_node(node)
        if self._network.blocked and random.random() < 0.5:
            self._network.blocked.clear()
        elif random.random() < knobs.partition:
            self._partition()
        leader = self._leader()
        if leader is not None and leader.replica is not None and not leader.is_paused:
            if random.random() < knobs.transfer:
                leader.replica.transfer_leadership(random.choice(leader.replica.voters))
                leader.execute()
            if random.random() < knobs.change:
                self._change_membership(leader, leader.replica)

    def _strike_node(self, node: SimulatedNode) -> None:
        world = self._world
        random, knobs = world.random, world.knobs
        if not node.is_up:
            if random.random() < 0.5:
                node.start()
        elif random.random() < knobs.crash * (3 if node.leads else 1):
            node.crash()
        elif random.random() < knobs.pause:
            node.paused_until_ms = world.now_ms + random.randrange(100, 5_000)
        elif random.random() < knobs.forget:
            self._forget(node)
        if knobs.damage and self._damage_random.random() < knobs.damage:
            self._damage(node)
        if knobs.full_ring and self._damage_random.random() < knobs.full_ring:
            node.full_until_ms = world.now_ms + self._damage_random.choice((200, 1_000, 5_000, 20_000))

    def _leader(self) -> SimulatedNode | None:
        return next((node for node in self._nodes.values() if node.leads), None)

    def _damage(self, node: SimulatedNode) -> None:
        """Damage the files of `node`, if every membership that may come into force keeps an undamaged majority."""
        replica = node.replica
        damaged = [it.voter for it in self._nodes.values() if it.is_damaged or it is node]
        # A crash undoes truncations that are not durable, so the memberships on the disks may come into force again.
        logs = [log for it in self._nodes.values() for log in (it.memory, it.disk)]
        known = [membership for log in logs for _, membership in log.memberships]
        for membership in known:
            if not quorum.has_majority(membership.voters, [it for it in membership.voters if it not in damaged]):
                return
        if replica is not None and replica.installing is None and not node.is_paused and not node.is_damaged:
            self.damages += 1
            node.damage(self._damage_random.randrange(len(node.memory.content) + 1))

    def _forget(self, node: SimulatedNode) -> None:
        replica = node.replica
        if replica is not None and replica.installing is None and not node.is_damaged:
            node.forget(min(replica.stable_index, node.disk.commit_index))

    def _partition(self) -> None:
        """Block messages between two sides, in one or both directions, or only from one node to another."""
        random = self._world.random
        voters = list(self._nodes)
        random.shuffle(voters)
        at = random.randrange(1, len(voters))
        leader = self._leader()
        if leader is not None and random.random() < 0.5:  # isolate the leader, alone or with one other node
            voters.remove(leader.voter)
            voters.insert(0, leader.voter)
            at = random.choice((1, 1, 2)) if len(voters) > 3 else 1
        kind = random.choice(("both ways", "one way", "one pair"))
        if kind == "one pair":
            self._network.blocked.add((voters[0], voters[1]))
            return
        for left in voters[:at]:
            for right in voters[at:]:
                self._network.blocked.add((left, right))
                if kind == "both ways":
                    self._network.blocked.add((right, left))

    def _change_membership(self, leader: SimulatedNode, replica: Replica) -> None:
        """
        Add a learner, promote a learner, or remove a voter.  Do nothing while a node is damaged, because the change
        could lead to a membership without an undamaged majority.
        """
        if any(node.is_damaged for node in self._nodes.values()):
            return
        random = self._world.random
        now = replica.membership
        outside = [voter for voter in self._nodes if voter not in now.members]
        changes = []
        if outside:
            changes.append(Membership(now.voters, (*now.learners, random.choice(outside))))
        if now.learners:
            promoted = random.choice(now.learners)
            rest = tuple(learner for learner in now.learners if learner != promoted)
            changes.append(Membership((*now.voters, promoted), rest))
        if len(now.voters) > 1:
            removed = random.choice(now.voters)
            changes.append(Membership(tuple(voter for voter in now.voters if voter != removed), now.learners))
        if not changes:
            return
        try:
            replica.change_membership(random.choice(changes), leader.clock_ms())
        except IllegalChange:
            return
        leader.execute()
