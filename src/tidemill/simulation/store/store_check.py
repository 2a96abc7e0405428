"""Compares a store that recovery has opened with the model: files, rows, votes, epochs and producers."""

from collections.abc import Iterator

from tidemill.raft.entry import COMMAND
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.store.store_model import PRODUCER_BATCHES, PartitionModel, ShardModel, StoreModel
from tidemill.storage import paths
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.storage.store import Store


def differences(model: StoreModel, store: Store, disk: SimulatedDisk) -> Iterator[str]:
    """Yield a sentence for each difference between the store and the model."""
    if model.shards.keys() != store.shards.keys():
        yield f"open shards are {sorted(store.shards)}, not {sorted(model.shards)}"
        return
    closed = {
        shard_id: (shard.term, shard.voted_for, shard.last_index, shard.last_term)
        for shard_id, shard in store.closed.items()
    }
    if model.closed != closed:
        yield f"closed shards are {closed}, not {model.closed}"
    owned: set[str] = set()
    for shard_id, shard in model.shards.items():
        log = store.shards[shard_id]
        for problem in _shard_differences(shard, log, disk):
            yield f"shard {shard_id}: {problem}"
        owned.update(partition.directory for partition in log.partitions.values())
    for path in disk.file_paths():
        if path.startswith(paths.TOPICS + "/") and path.rpartition("/")[0] not in owned:
            yield f"{path} belongs to no shard that is open"


def _shard_differences(shard: ShardModel, log: ShardLog, disk: SimulatedDisk) -> Iterator[str]:
    if log.damage is not None:
        yield f"damage is reported: {log.damage}"
        return
    if (shard.term, shard.voted_for) != (log.term, log.voted_for):
        yield f"term and vote are {log.term} {log.voted_for}, not {shard.term} {shard.voted_for}"
    if shard.claimed is not None:
        claimed = (log.last_index, log.term_at(log.last_index))
        if (shard.claimed, (0, 0)) != (claimed, log.installing):
            yield f"a replica that came back claims {claimed} and installs {log.installing}, not {shard.claimed}"
        return
    if len(shard.entries) != log.last_index:
        yield f"the log ends at entry {log.last_index}, not {len(shard.entries)}"
        return
    if shard.term_at(log.first_index - 1) != log.term_at(log.first_index - 1):
        yield f"entry {log.first_index - 1} has another term"
    for entry in log.entries:
        wanted = shard.entries[entry.index - 1]
        found = (
            entry.index,
            entry.term,
            entry.kind,
            entry.partition,
            entry.base_offset,
            entry.record_count,
            entry.append_time,
        )
        if wanted[:7] != found:
            yield f"entry {found} should be {wanted[:7]}"
        elif entry.kind == COMMAND and entry.payload != wanted.payload:
            yield f"command {entry.index} has other bytes"
        elif wanted.term != log.term_at(entry.index):
            yield f"entry {entry.index} is of term {wanted.term}, the log's table has {log.term_at(entry.index)}"
    for number, partition in log.partitions.items():
        for problem in _partition_differences(
            shard.partition(number), shard.trimmed.get(number, 0), partition, log, disk
        ):
            yield f"partition {number}: {problem}"


def _partition_differences(
    wanted: PartitionModel, trimmed: int, log: PartitionLog, shard: ShardLog, disk: SimulatedDisk
) -> Iterator[str]:
    if (trimmed, trimmed, wanted.end_offset) != (log.trimmed, log.log_start, log.end_offset):
        yield (
            f"trimmed offset, log start and end are {log.trimmed}, {log.log_start}, {log.end_offset}, "
            f"not {trimmed}, {trimmed}, {wanted.end_offset}"
        )
        return
    epochs = [(start.epoch, start.start_offset) for start in log.epochs.starts]
    if wanted.epochs != epochs:
        yield f"leader epochs are {epochs}, not {wanted.epochs}"
    yield from _producer_differences(wanted, log, shard)
    yield from _file_differences(wanted, trimmed, log, disk)


def _producer_differences(wanted: PartitionModel, log: PartitionLog, shard: ShardLog) -> Iterator[str]:
    found = {
        producer: tuple(
            (batch.epoch, batch.first_sequence, batch.last_sequence, batch.base_offset, batch.log_index)
            for batch in batches[-PRODUCER_BATCHES:]
        )
        for producer, batches in log.producers.saved(shard.commit_index, shard.last_index).items()
    }
    if wanted.producers != found:
        yield f"producers are {found}, not {wanted.producers}"


def _file_differences(wanted: PartitionModel, trimmed: int, log: PartitionLog, disk: SimulatedDisk) -> Iterator[str]:
    segments = [segment for segment in log.segments if segment.size]
    known = {paths.segment_file(log.directory, segment.base_offset) for segment in log.segments}
    for name in disk.list(log.directory):
        path = f"{log.directory}/{name}"
        if path.rpartition(".")[0] + ".log" not in known:
            yield f"{path} belongs to no segment"
    if not segments:
        if wanted.end_offset > trimmed:
            yield f"no segment holds offsets {trimmed} to {wanted.end_offset - 1}"
        return
    if segments[0].base_offset > trimmed:
        yield f"the first segment begins at {segments[0].base_offset}, above the log start {trimmed}"
    at = wanted.positions.get(segments[0].base_offset, -1)
    for segment in segments:
        if wanted.positions.get(segment.base_offset, -2) != at:
            yield f"{segment.path} does not begin with a batch that continues the one before it"
            return
        file = disk.open(segment.path)
        if file.read(0, file.size()) != wanted.data[at : at + segment.size]:
            yield f"{segment.path} holds other bytes than were submitted"
        at += segment.size
    if at != len(wanted.data):
        yield f"the segments end {len(wanted.data) - at} B early"
