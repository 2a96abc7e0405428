"""Removal of trimmed segments and of closed shards' files, once the row that allows it is durable."""

from collections.abc import Callable

from tidemill.model.shard import ShardId
from tidemill.storage import paths
from tidemill.storage.disk import Disk, remove_if_empty, remove_if_there
from tidemill.storage.journal.dirty_files import DirtyFiles
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.partition.segment import Segment

Step = Callable[[], None]


class Removals:
    """
    The pending removals.  Each waits until the control row that allows it is synced (rules D1 and D2).  Used only on
    the event loop.
    """

    def __init__(self, disk: Disk, dirty: DirtyFiles) -> None:
        self._disk = disk
        self._dirty = dirty
        self._segments: list[tuple[int, Segment]] = []  # (number of the control row, segment)
        self._shards: list[tuple[int, ShardLog]] = []  # (number of the control row, shard)
        self._removing: list[ShardId] = []  # the shards that the newest steps remove

    def __bool__(self) -> bool:
        return bool(self._segments or self._shards)

    def add_segments(self, number: int, segments: list[Segment]) -> None:
        self._segments += [(number, segment) for segment in segments]

    def add_shard(self, number: int, log: ShardLog) -> None:
        self._shards.append((number, log))

    def holds(self, shard_id: ShardId) -> bool:
        """Return whether files of a closed shard may still be there."""
        return shard_id in self._removing or any(log.shard_id == shard_id for _, log in self._shards)

    def closing(self, control_rows: int) -> list[ShardLog]:
        """
        Return the shards whose CLOSED row is not among the first `control_rows` ones: those that a block has, or those
        that are durable.
        """
        return [log for number, log in self._shards if number > control_rows]

    def steps(self, synced_control_rows: int) -> list[Step]:
        """
        Return steps, for another thread, that remove the files whose control rows are durable.  Call `done` afterwards.
        """
        disk, dirty = self._disk, self._dirty
        steps: list[Step] = []
        while self._segments and self._segments[0][0] <= synced_control_rows:
            segment = self._segments.pop(0)[1]
            dirty.forget(segment)
            dirty.add((), [segment.path.rpartition("/")[0]])
            steps.append(lambda segment=segment: remove_segment(disk, segment))  # type: ignore[misc]
        while self._shards and self._shards[0][0] <= synced_control_rows:
            log = self._shards.pop(0)[1]
            self._removing.append(log.shard_id)
            for partition in log.partitions.values():
                for segment in partition.segments:
                    dirty.forget(segment)
                dirty.directories.pop(partition.directory, None)
            # The removal changes both directories; the topic's directory remains if it has partitions of other shards.
            dirty.add((), [paths.topic_directory(log.descriptor.topic_id), paths.TOPICS])
            steps.append(lambda log=log: remove_shard(disk, log))  # type: ignore[misc]
        return steps

    def done(self) -> None:
        """Record that the newest steps have been executed."""
        self._removing.clear()


def remove_segment(disk: Disk, segment: Segment) -> None:
    segment.close()
    for path in (segment.path, paths.index_file(segment.path)):
        remove_if_there(disk, path)


def remove_shard(disk: Disk, log: ShardLog) -> None:
    """Remove every file of the shard's partitions, then their directories."""
    log.close()
    for partition in log.partitions.values():
        directory = partition.directory
        for name in disk.list(directory):
            remove_if_there(disk, f"{directory}/{name}")
        remove_if_empty(disk, directory)
    remove_if_empty(disk, paths.topic_directory(log.descriptor.topic_id))
