"""
The invariants of replicas that are closed and opened again, checked after every turn of a broker: what a replica knows
durably it does not forget, what a leader believes of a member is so, and what is planned is open.
"""

from typing import Final

from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.shard.shard import Shard
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.invariant_violation import InvariantViolation

OPENING_TICKS: Final = 8  # within which a broker opens what its image plans on it


class ReplicaCheck:
    def __init__(self, machines: list[BrokerMachine]) -> None:
        self._machines = machines
        # The ticks of a machine when a planned shard was first seen not to be open there, by machine and shard.
        self._missing_since: dict[tuple[BrokerMachine, ShardId], int] = {}
        self._ticks: dict[BrokerMachine, int] = {}  # of each machine, when everything was last checked
        # What each leader believed of its members when that was last checked, by machine and shard.
        self._believed: dict[tuple[BrokerMachine, ShardId], dict[ReplicaKey, int]] = {}
        self._images: dict[BrokerMachine, ClusterImage] = {}  # the newest that was looked at
        self._known: set[ShardId] = set()  # in any image so far
        self._deleted: set[ShardId] = set()  # whose topics have been deleted

    def check_after_turn(self, machine: BrokerMachine) -> None:
        """Check what has changed in this turn; and everything that needs it, a few times a second."""
        if machine.broker is None:
            return
        if machine.broker.image is not self._images.get(machine):
            self._note_deleted(machine, machine.broker.image)
        has_ticked = self._ticks.get(machine) != machine.ticks
        for shard_id, shard in machine.broker.shard_table.shards.items():
            self._check_vote(machine, shard_id, shard)
            if shard.replica.leads:
                matches = shard.replica.matches
                is_due = has_ticked or matches != self._believed.get((machine, shard_id))
                if is_due and shard_id not in self._deleted:
                    self._believed[machine, shard_id] = matches
                    self._check_matches(shard_id, shard, matches)
        if has_ticked:
            self._ticks[machine] = machine.ticks
            self._check_planned(machine)

    def _note_deleted(self, machine: BrokerMachine, image: ClusterImage) -> None:
        """
        Note whose topics have been deleted.  A broker that restarts with an older image may open such a shard again,
        although its leader, which has not heard of the deletion either, counts the former replica.
        """
        self._images[machine] = image
        self._known |= image.shards.keys()
        self._deleted |= {it for it in self._known - image.shards.keys() if it < image.next_shard_id}

    def check_undamaged(self, machine: BrokerMachine) -> None:
        """Check that no replica is damaged.  Call it only in runs in which no byte of a disk is flipped."""
        shards = () if machine.broker is None else machine.broker.shard_table.shards.values()
        for shard in shards:
            if shard.log.damage is not None:
                raise InvariantViolation(
                    f"shard {shard.shard_id} on {machine.name} is damaged, and no byte was flipped: {shard.log.damage}"
                )

    def _check_vote(self, machine: BrokerMachine, shard_id: ShardId, shard: Shard) -> None:
        """Check that the replica has not forgotten the term and the vote that its journal has synced (rule E1)."""
        synced = machine.votes.get(shard_id)
        if synced is None:
            return
        (term, voted_for), replica = synced, shard.replica
        if replica.term < term or (replica.term == term and voted_for not in (None, replica.voted_for)):
            raise InvariantViolation(
                f"shard {shard_id} on {machine.name} has forgotten its vote for {voted_for} in term {term}: it is in "
                f"term {replica.term} and has voted for {replica.voted_for}"
            )

    def _check_matches(self, shard_id: ShardId, shard: Shard, matches: dict[ReplicaKey, int]) -> None:
        """Check that each live member of the leader's term has on its disk what the leader believes it has."""
        replica, log = shard.replica, shard.log
        for member, index in matches.items():
            if not log.first_index - 1 <= index or not index:
                continue
            machine = next((it for it in self._machines if it.voter == member), None)
            here = (
                None if machine is None or machine.broker is None else machine.broker.shard_table.shards.get(shard_id)
            )
            if machine is None or here is None or here.replica.term != replica.term:
                continue
            if not machine.holds(shard_id, index, log.term_at(index)):
                raise InvariantViolation(
                    f"shard {shard_id}: {replica.me} leads term {replica.term} and believes that {member} has entry "
                    f"{index} on its disk, which it does not have"
                )

    def _check_planned(self, machine: BrokerMachine) -> None:
        """Check that the broker has soon opened what its own image plans on it, once the former files are gone."""
        broker = machine.broker
        assert broker is not None, "it is up"
        for shard_id, planned in broker.image.shards.items():
            key = machine, shard_id
            is_missing = (
                shard_id != METADATA_SHARD
                and machine.voter in planned.replicas
                and shard_id not in broker.shard_table.shards
                and broker.store.may_open(shard_id)
            )
            if not is_missing:
                self._missing_since.pop(key, None)
            elif machine.ticks - self._missing_since.setdefault(key, machine.ticks) > OPENING_TICKS:
                raise InvariantViolation(f"shard {shard_id} is planned on {machine.name}, which does not open it")
