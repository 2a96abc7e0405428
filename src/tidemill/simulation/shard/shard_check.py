"""The invariants of a simulated shard.  Each check raises `InvariantViolation` with the seed and the time."""

from collections.abc import Sequence

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.ready import Vote
from tidemill.raft.replica import Replica
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.shard.model_log import ModelLog
from tidemill.simulation.shard.shard_world import ShardWorld


class ShardCheck:
    """Records a run's acknowledged and committed entries, votes and leaders, and checks new ones against them."""

    def __init__(self, world: ShardWorld) -> None:
        self.acknowledged: dict[int, tuple[int, bytes]] = {}  # index → (term, payload)
        self.committed: dict[int, tuple[int, bytes]] = {}  # index → (term, payload)
        self.newest: dict[int, int] = {}  # term → the highest committed index of that term
        self.confirmed: set[int] = set()  # the terms whose leader was confirmed
        self.leaders: dict[int, ReplicaKey] = {}  # term → leader
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}  # (voter, term) → candidate
        # For each node: its disk, and a copy of the disk from before each damage.
        self.disks: dict[ReplicaKey, Sequence[ModelLog]] = {}
        self._world = world
        self._checked_majority = 0

    @property
    def newest_acknowledged(self) -> int:
        return max(self.acknowledged, default=0)

    def acknowledge(self, index: int, term: int, payload: bytes) -> None:
        self.acknowledged[index] = (term, payload)

    def check_leader(self, voter: ReplicaKey, term: int) -> None:
        """Check that a term has only one leader."""
        first = self.leaders.setdefault(term, voter)
        if first != voter:
            raise InvariantViolation(f"{self._moment()}: {first} and {voter} lead term {term}")

    def check_vote(self, voter: ReplicaKey, before: Vote, after: Vote) -> None:
        """Check that a durable term never decreases, and that a voter votes for only one candidate in a term."""
        if after.term < before.term:
            raise InvariantViolation(
                f"{self._moment()}: the term of {voter} decreased from {before.term} to {after.term}"
            )
        if after.voted_for is not None:
            first = self.votes.setdefault((voter, after.term), after.voted_for)
            if first != after.voted_for:
                raise InvariantViolation(f"{self._moment()}: {voter} voted twice in term {after.term}")

    def check_committed(self, voter: ReplicaKey, index: int, term: int, payload: bytes) -> None:
        """Check that no two replicas commit different entries at the same index."""
        entry = (term, payload)
        first = self.committed.setdefault(index, entry)
        self.newest[term] = max(self.newest.get(term, 0), index)
        if first != entry:
            raise InvariantViolation(
                f"{self._moment()}: entry {index} was committed as {first}, and {voter} commits {entry}"
            )

    def check_majority(self, replica: Replica, memory: ModelLog) -> None:
        """Check that the entry at a leader's commit index is on the disks of a majority of the voters in force."""
        index = replica.commit_index
        if index < memory.first_index or index <= self._checked_majority:
            return
        self._checked_majority = index
        term = memory.term_at(index)
        durable = sum(any(_holds(disk, index, term) for disk in self.disks[voter]) for voter in replica.voters)
        if durable < len(replica.voters) // 2 + 1:
            raise InvariantViolation(
                f"{self._moment()}: entry {index} is committed and is on {durable} of {len(replica.voters)} disks"
            )

    def check_confirmed(self, voter: ReplicaKey, replica: Replica) -> None:
        """Check that a confirmed leader has every entry that was committed in earlier terms, and may apply it."""
        if not replica.is_confirmed or replica.term in self.confirmed:
            return
        self.confirmed.add(replica.term)
        newest = max((index for term, index in self.newest.items() if term < replica.term), default=0)
        if replica.stable_index < newest:
            raise InvariantViolation(
                f"{self._moment()}: {voter} serves in term {replica.term} entries up to {replica.stable_index}, "
                f"and entry {newest} was committed before that term"
            )

    def check_read(self, served_index: int, acknowledged: int) -> None:
        """Check that a confirmed read sees every entry that had been acknowledged when the read began."""
        if served_index < acknowledged:
            raise InvariantViolation(
                f"{self._moment()}: a confirmed read at {served_index} misses entry {acknowledged}"
            )

    def check_acknowledged(self) -> None:
        """Check that every acknowledged entry is committed.  Call this at the end of a run."""
        for index, entry in self.acknowledged.items():
            if self.committed.get(index) != entry:
                raise InvariantViolation(
                    f"{self._moment()}: entry {index} was acknowledged as {entry}, and is not committed"
                )

    def _moment(self) -> str:
        return f"seed {self._world.seed}, {self._world.now_ms} ms"


def _holds(disk: ModelLog, index: int, term: int) -> bool:
    if index <= len(disk.state):
        return disk.state[index - 1][1] == term
    if disk.installing is not None or disk.is_damaged:
        return False
    return index <= disk.last_index and disk.term_at(index) == term
