"""
The invariants of a simulated cluster, checked after every turn of a broker, and at the end of a run, after healing.
"""

from typing import Final, NamedTuple

from tidemill.batches.batch import spans
from tidemill.batches.checksum import crc32c
from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.model.topic import TopicId
from tidemill.raft.replica import Replica
from tidemill.raft.voters import Membership
from tidemill.shard.partition import Partition
from tidemill.shard.shard import Shard
from tidemill.simulation.clients.history import History
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.storage.store import Store

READ_BYTES: Final = 1 << 20


class LogPosition(NamedTuple):
    """
    The position of one replica of a partition.  Epochs and producers change at append, so the last entry counts: where
    only some replicas have the first entry of a term, their epochs differ and their offsets do not.  Logs whose last
    entries have the same index and term are equal (the log matching property).
    """

    log_start: int
    high_watermark: int
    end_offset: int
    stable_index: int
    last_index: int
    last_term: int


class ReplicaState(NamedTuple):
    """The state of one replica of a partition.  Replicas at the same position must have the same state."""

    position: LogPosition
    epochs: list[tuple[int, int]]  # (epoch, start offset)
    producers: dict[int, tuple[int, int, int]]  # producer id → epoch, last sequence and end offset of its newest batch


class ClusterCheck:
    def __init__(self, machines: list[BrokerMachine]) -> None:
        self._machines = machines
        self.gone: list[BrokerMachine] = []  # machines that are lost for good, which may have acknowledged entries
        self.rot_found = 0  # the number of damaged segments found by the latest comparison of all bytes
        self._leaders: dict[tuple[ShardId, int], ReplicaKey] = {}  # (shard, term) → leader
        # The committed entries by (shard, log index): term and CRC of the payload.
        self._committed: dict[tuple[ShardId, int], tuple[int, int]] = {}
        # By (machine, number of times that it had started): the last observed commit index of each shard.
        self._seen: dict[tuple[BrokerMachine, int], dict[ShardId, int]] = {}
        self._majority_checked: dict[ShardId, int] = {}  # the highest index for which a majority was checked
        # By shard and log index: the memberships that may be in force.
        self._memberships: dict[ShardId, dict[int, Membership]] = {}
        # By shard and term: the highest index that replicas in that term considered committed.
        self._newest: dict[ShardId, dict[int, int]] = {}
        self._served: set[tuple[ShardId, int]] = set()  # each (shard, term) in which a leader has served clients

    def check_after_turn(self, machine: BrokerMachine) -> None:
        """Check the invariants after a turn of the broker's loop."""
        if machine.broker is None:
            return
        seen, shards = self._seen.setdefault((machine, machine.starts), {}), machine.broker.shard_table.shards
        if not seen.keys() <= shards.keys():
            for closed in seen.keys() - shards.keys():
                del seen[closed]  # a later replica of the shard begins with an empty log
        for shard_id, shard in shards.items():
            replica = shard.replica
            # Even before any replica has led the shard, a majority of its first voters must survive.
            if shard_id not in self._memberships:
                self._memberships[shard_id] = {0: shard.log.descriptor.membership}
            if replica.leads:
                self._check_leader(shard)
                if shard.is_serving and (shard_id, replica.term) not in self._served:
                    self._check_served(shard)
                if replica.commit_index > self._majority_checked.get(shard_id, 0):
                    self._check_majority(shard_id, shard.log, replica)
            # During an install the log is incomplete, so its commit index does not count.
            if replica.stable_index != seen.get(shard_id, 0) and replica.installing is None:
                self._check_commit(machine, shard, seen)

    def _check_leader(self, shard: Shard) -> None:
        replica = shard.replica
        first = self._leaders.setdefault((shard.shard_id, replica.term), replica.me)
        if first != replica.me:
            raise InvariantViolation(f"shard {shard.shard_id}: {first} and {replica.me} lead term {replica.term}")
        known = self._memberships.setdefault(shard.shard_id, {})
        at, membership = shard.log.memberships[-1]
        if known.get(at) is not membership or len(known) > 1:
            known[at] = membership
            for older in [older for older in known if older < at <= replica.commit_index]:
                del known[older]

    def _check_served(self, shard: Shard) -> None:
        """Check that a leader that begins to serve may apply all entries that were committed in earlier terms."""
        replica, shard_id = shard.replica, shard.shard_id
        self._served.add((shard_id, replica.term))
        before = [index for term, index in self._newest.get(shard_id, {}).items() if term < replica.term]
        if replica.stable_index < max(before, default=0):
            raise InvariantViolation(
                f"shard {shard_id}: {replica.me} serves in term {replica.term} entries up to "
                f"{replica.stable_index}, and entry {max(before)} was committed before"
            )

    def _check_commit(self, machine: BrokerMachine, shard: Shard, seen: dict[ShardId, int]) -> None:
        """Check that a commit index never decreases, and that no two replicas commit different entries."""
        index, before = shard.replica.stable_index, seen.get(shard.shard_id, 0)
        if index < before:
            raise InvariantViolation(
                f"shard {shard.shard_id} on {machine.name}: the commit index decreased from {before} to {index}"
            )
        seen[shard.shard_id] = index
        newest, term = self._newest.setdefault(shard.shard_id, {}), shard.replica.term
        newest[term] = max(newest.get(term, 0), index)
        log = shard.log
        for at in range(max(before + 1, log.first_index), index + 1):
            entry = log.entry_at(at)
            if entry.payload is None:
                continue  # the bytes are only in the segment; `agree` compares segments
            found = (entry.term, crc32c(entry.payload))
            first = self._committed.setdefault((shard.shard_id, at), found)
            if first != found:
                raise InvariantViolation(
                    f"shard {shard.shard_id}, entry {at}: committed as {first}, and as {found} on {machine.name}"
                )

    def _check_majority(self, shard_id: ShardId, log: ShardLog, replica: Replica) -> None:
        """Check that the entry at a leader's commit index is on the disks of a majority of the voters in force."""
        index = replica.commit_index
        self._majority_checked[shard_id] = index
        term = log.term_at(index)
        machines = (*self._machines, *self.gone)
        holders = set().union(*[machine.holders(shard_id, index, term, replica.term) for machine in machines])
        if len(holders.intersection(replica.voters)) <= len(replica.voters) // 2:
            numbers = sorted(voter.broker_id for voter in holders)
            raise InvariantViolation(
                f"shard {shard_id}: entry {index} of term {term} is committed, but only on brokers {numbers}"
            )

    def may_lose(self, lost: BrokerMachine) -> bool:
        """
        Return whether, without the machine `lost`, each shard has a majority in any membership that may be in force,
        and in the planned one: its leader may take the last step towards that before it knows of the loss.

        Lost learners count as voters: a leader may still promote them, because it considers a silent broker alive for
        another two seconds.
        """
        for machine in self._machines:
            if machine.broker is not None:
                image = machine.broker.image
                for shard_id in machine.broker.store.closed.keys() - image.shards.keys():
                    if shard_id < image.next_shard_id:  # the image has had the shard: its topic has been deleted
                        self._memberships.pop(shard_id, None)
        staying = {machine.voter for machine in self._machines if machine is not lost and not machine.is_rotten}
        for known in self._memberships.values():
            for membership in known.values():
                voters = {*membership.voters, *(set(membership.members) - staying)}
                if len(staying & voters) <= len(voters) // 2:
                    return False
        images = {id(it.broker.image.shards): it.broker.image.shards for it in self._machines if it.broker is not None}
        planned = (shard.replicas for shards in images.values() for shard in shards.values())
        return all(len(staying.intersection(voters)) > len(voters) // 2 for voters in planned)

    def members(self, shard_id: ShardId) -> set[ReplicaKey]:
        """Return the members of a shard in all memberships that may be in force."""
        return {member for known in self._memberships.get(shard_id, {}).values() for member in known.members}

    # Checks after all faults have ended.

    def agree(self) -> bool:
        """Return whether every broker is up and all of them agree.

        All replicas of a partition must have the same log, log start, high watermark, epochs, producer states and
        bytes, and all brokers the same metadata.  Return False while a replica or broker lags behind; raise
        `InvariantViolation` if two differ.
        """
        if not all(machine.is_ready for machine in self._machines):
            return False
        # Replicas are compared by topic id: a lagging broker may still have an older topic with the same name.
        batches: dict[tuple[TopicId, int], dict[int, bytes]] = {}
        states: dict[tuple[TopicId, int], list[tuple[str, ReplicaState]]] = {}
        images: list[ClusterImage] = []
        for machine in self._machines:
            assert machine.broker is not None, f"{machine.name} is ready"
            if any(shard.replica.is_damaged for shard in machine.broker.shard_table.shards.values()):
                return False
            images.append(machine.broker.image)
            for partitions in machine.broker.shard_table.topics.values():
                for number, partition in partitions.items():
                    topic_id = partition.log.topic_id
                    try:
                        self._compare(machine, partition, batches.setdefault((topic_id, number), {}))
                    except SegmentDamaged as problem:
                        self.rot_found += 1
                        if not partition.shard.damage.suspect(problem):
                            raise  # no other replica can repair the segment
                        return False
                    state = replica_state(machine.broker.store, partition)
                    states.setdefault((topic_id, number), []).append((machine.name, state))
            if not self._is_placed(machine):
                return False
        if len({image.offset for image in images}) > 1:
            return False
        if any(image != images[0] for image in images):
            raise InvariantViolation(f"brokers have the same metadata offset and different images: {images}")
        for (topic_id, number), found in states.items():
            if len({state.position for _, state in found}) > 1:
                return False
            if any(state != found[0][1] for _, state in found):
                raise InvariantViolation(
                    f"{topic_id.hex()}-{number}: replicas have the same position and different states: {found}"
                )
        return True

    def check_deleted(self, history: History) -> None:
        """Check that each log starts neither below the acknowledged deletions nor above the requested ones.

        Call this when the replicas agree.
        """
        for machine in self._machines:
            assert machine.broker is not None, f"{machine.name} is ready"
            for topic, partitions in machine.broker.shard_table.topics.items():
                for number, partition in partitions.items():
                    known = history.partitions.get((topic, number))
                    if known is not None and not known.deleted <= partition.log_start <= known.delete_asked:
                        raise InvariantViolation(
                            f"{topic}-{number} starts at {partition.log_start} on {machine.name}; deletion was "
                            f"acknowledged up to {known.deleted} and requested up to {known.delete_asked}"
                        )

    def _is_placed(self, machine: BrokerMachine) -> bool:
        """
        Return whether the broker's assigned shards have the planned voters, and no other shard remains.
        """
        broker = machine.broker
        assert broker is not None, f"{machine.name} is ready"
        for shard in broker.image.shards.values():
            here = broker.shard_table.shards.get(shard.shard_id)
            if machine.voter in shard.replicas and (here is None or set(here.replica.voters) != set(shard.replicas)):
                return False
        return all(
            shard_id in broker.image.shards
            and (shard_id == METADATA_SHARD or machine.voter in broker.image.shards[shard_id].replicas)
            for shard_id in broker.shard_table.shards
        )

    def _compare(self, machine: BrokerMachine, partition: Partition, found: dict[int, bytes]) -> None:
        """
        Compare a replica with the others.  `found` maps each base offset to the batch that another replica has at this
        offset.
        """
        offset = partition.log_start
        where = f"{partition.topic}-{partition.number} on {machine.name}"
        while offset < partition.high_watermark:
            read = partition.log.read(offset, READ_BYTES, partition.high_watermark, may_wait=True)
            if read is None or not read[0]:
                raise InvariantViolation(
                    f"{where}: nothing can be read at {offset}, below the high watermark {partition.high_watermark}"
                )
            for buffer in read[0]:
                for span in spans(buffer):
                    batch = bytes(memoryview(buffer)[span.position : span.position + span.size])
                    if found.setdefault(span.header.base_offset, batch) != batch:
                        raise InvariantViolation(
                            f"{where}: the batch at {span.header.base_offset} differs from that of another replica"
                        )
                    offset = span.header.end_offset

    def describe(self) -> list[str]:
        """Describe the state of every replica, for a run that did not finish."""
        lines = []
        for machine in self._machines:
            if machine.broker is None:
                state = "starting" if machine.is_running else "down"
                lines.append(f"{machine.name} is {state}: {[*machine.lines][-3:]}")
                continue
            if not machine.is_ready:
                lines.append(f"{machine.name} is not ready: {[*machine.lines][-3:]}")
            for shard_id, shard in machine.broker.shard_table.shards.items():
                it = shard.replica
                lines.append(
                    f"{machine.name} shard {shard_id}: {it.role} term {it.term} last {it.last_index} "
                    f"durable {it.durable_index} commit {it.commit_index}"
                )
        return lines


def replica_state(store: Store, partition: Partition) -> ReplicaState:
    """
    Return the state of a replica.  Producers that may have expired are omitted, because each replica drops them at a
    different time.
    """
    log, shard = partition.log, partition.shard.log
    silent_since = shard.committed_append_time - store.options.producer_expiration_ms
    silent = log.producers.silent(shard.commit_index, silent_since)
    producers = {
        producer_id: (batch.epoch, batch.last_sequence, batch.end_offset)
        for producer_id, batch in log.producers.newest().items()
        if producer_id not in silent
    }
    position = LogPosition(
        log_start=log.log_start,
        high_watermark=partition.high_watermark,
        end_offset=log.end_offset,
        stable_index=partition.shard.replica.stable_index,
        last_index=shard.last_index,
        last_term=shard.term_at(shard.last_index),
    )
    return ReplicaState(position, [(start.epoch, start.start_offset) for start in log.epochs.starts], producers)
