"""Sends messages to the other replicas, in order, with the bytes of their entries.

Bytes that are no longer in memory are read from the segments, off the event loop if they are not in the page cache.
Later messages to the same replica wait for such a read; the leader's window for the replica bounds their number.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.entry import Entry
from tidemill.raft.messages import AppendEntries, Message
from tidemill.shard.jobs import Jobs
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.partition.segment import SegmentDamaged


class Outgoing:
    def __init__(
        self,
        log: ShardLog,
        send: Callable[[ReplicaKey, Message], None],
        jobs: Jobs,
        gone: Callable[[ReplicaKey], None],
        suspect: Callable[[SegmentDamaged], object],
    ) -> None:
        """
        `gone` is called with a replica that needs an install, because its next entry can no longer be read on this
        broker.  If damage is the reason, `suspect` is called with the damage first.
        """
        self._suspect = suspect
        self._log = log
        self._send = send
        self._jobs = jobs
        self._gone = gone
        self._waiting: dict[ReplicaKey, deque[Message]] = {}  # by replica, while a job reads bytes of the first one

    def send(self, to: ReplicaKey, message: Message) -> None:
        waiting = self._waiting.get(to)
        if waiting is not None:
            waiting.append(message)
            return
        found = self._with_bytes(message, may_wait=False)
        if isinstance(found, Exception):
            self._unreadable(to, found)
        elif found is not None:
            self._send(to, found)
        else:
            self._waiting[to] = deque([message])
            self._read(to, message)

    def _read(self, to: ReplicaKey, message: Message) -> None:
        def failed(error: BaseException) -> None:
            """
            Drop the queue, so that it does not block later messages.  The dropped messages will be repeated, like lost
            ones.
            """
            del self._waiting[to]
            raise error

        self._jobs.submit(
            lambda: self._with_bytes(message, may_wait=True), lambda found: self._was_read(to, found), failed
        )

    def _was_read(self, to: ReplicaKey, found: Message | Exception | None) -> None:
        waiting = self._waiting.pop(to)
        waiting.popleft()
        if isinstance(found, Exception):
            self._unreadable(to, found)
            return  # drop the later messages: their entries do not directly follow the last entry that the replica has
        assert found is not None, "a read that may wait returns bytes"
        self._send(to, found)
        for message in waiting:
            self.send(to, message)

    def _unreadable(self, to: ReplicaKey, problem: Exception) -> None:
        if isinstance(problem, SegmentDamaged):
            self._suspect(problem)
        self._gone(to)

    def _with_bytes(self, message: Message, *, may_wait: bool) -> Message | Exception | None:
        """
        Return `message` with the bytes of all entries; None if a read would wait for the disk; or the exception if the
        bytes cannot be read.
        """
        if not isinstance(message, AppendEntries) or all(entry.payload is not None for entry in message.entries):
            return message
        entries = []
        for entry in message.entries:
            try:
                payload = self._log.payload_of(entry, may_wait=may_wait)
            except (OffsetGone, SegmentDamaged) as problem:
                return problem
            if payload is None:
                return None
            whole = Entry(
                entry.kind,
                payload,
                partition=entry.partition,
                base_offset=entry.base_offset,
                record_count=entry.record_count,
                append_time=entry.append_time,
                index=entry.index,
                term=entry.term,
            )
            whole.crc = entry.crc
            entries.append(whole)
        return replace(message, entries=tuple(entries))
