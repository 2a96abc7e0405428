"""What must hold inside a simulated cluster, looked at after every turn of a broker, and when everything has healed."""

from tidemill.batches.batch import spans
from tidemill.model.broker_id import Voter
from tidemill.model.shard import ShardId
from tidemill.shard.partition import Partition
from tidemill.simulation.broker_machine import BrokerMachine
from tidemill.simulation.history import Broken

READ_BYTES = 1 << 20


class ClusterCheck:
    def __init__(self, machines: list[BrokerMachine]) -> None:
        self._machines = machines
        self._leaders: dict[tuple[ShardId, int], Voter] = {}  # of each term
        self._terms: dict[tuple[ShardId, Voter], int] = {}
        self._commits: dict[tuple[str, int, ShardId], int] = {}

    def turned(self, machine: BrokerMachine) -> None:
        """A broker's loop has turned."""
        broker = machine.broker
        if broker is None:
            return
        for shard_id, shard in broker.shard_table.shards.items():
            replica = shard.replica
            if replica.leads:
                first = self._leaders.setdefault((shard_id, replica.term), replica.me)
                if first != replica.me:
                    raise Broken(f"shard {shard_id}: {first} and {replica.me} lead term {replica.term}")
            life = (machine.name, machine.starts, shard_id)
            if self._commits.get(life, 0) > replica.commit_index:
                raise Broken(f"shard {shard_id} on {machine.name}: commit index {self._commits[life]} went back")
            self._commits[life] = replica.commit_index

    def agree(self) -> bool:
        """
        Every broker is up, and whoever has a partition has the same of it: epochs, high watermark, and every byte
        between log start and high watermark.  False while somebody lags; Broken when two differ.
        """
        if not all(machine.is_ready for machine in self._machines):
            return False
        found: dict[tuple[str, int], dict[int, tuple[int, int, bytes]]] = {}
        ends: dict[tuple[str, int], set[tuple[int, int]]] = {}
        for machine in self._machines:
            assert machine.broker is not None, f"{machine.name} is ready"
            for topic, partitions in machine.broker.shard_table.topics.items():
                for number, partition in partitions.items():
                    ends.setdefault((topic, number), set()).add((partition.log_start, partition.high_watermark))
                    self._compare(machine, partition, found.setdefault((topic, number), {}))
        return all(len(bounds) == 1 for bounds in ends.values())

    def _compare(self, machine: BrokerMachine, partition: Partition, found: dict[int, tuple[int, int, bytes]]) -> None:
        """`found`: (end offset, epoch, bytes) of the batch at each base offset, as others have it."""
        offset = partition.log_start
        where = f"{partition.topic}-{partition.number} on {machine.name}"
        while offset < partition.high_watermark:
            read = partition.log.read(offset, READ_BYTES, partition.high_watermark, may_wait=True)
            if read is None or not read[0]:
                raise Broken(f"{where}: nothing is there at {offset}, below {partition.high_watermark}")
            for buffer in read[0]:
                for span in spans(buffer):
                    header = span.header
                    batch = bytes(memoryview(buffer)[span.position : span.position + span.size])
                    first = found.setdefault(header.base_offset, (header.end_offset, header.leader_epoch, batch))
                    if first[2] != batch:
                        raise Broken(f"{where}: the batch at {header.base_offset} is not what another replica has")
                    offset = header.end_offset

    def standing(self) -> list[str]:
        """Who is where, for a run that did not come to its end."""
        lines = []
        for machine in self._machines:
            if machine.broker is None:
                lines.append(
                    f"{machine.name} is {'starting' if machine.is_running else 'down'}: {[*machine.lines][-3:]}"
                )
                continue
            for shard_id, shard in machine.broker.shard_table.shards.items():
                it = shard.replica
                lines.append(
                    f"{machine.name} shard {shard_id}: {it.role} term {it.term} last {it.last_index} "
                    f"durable {it.durable_index} commit {it.commit_index}"
                )
        return lines
