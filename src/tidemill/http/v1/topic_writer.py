"""Writes the records of one request to a topic, while more of them may still arrive.

add ─▶ the partition's next batch ─▶ one batch at a time to its leader ─▶ runs: where each record is

A partition has one batch in flight, which keeps the order of its records; the others gather in its next batches
meanwhile.  So batches are small while records are few, and large when they come fast.
"""

import asyncio
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tidemill.batches.batch import HEADER_BYTES, read_header
from tidemill.batches.builder import RecordTuple, build_batch
from tidemill.batches.native import scan
from tidemill.batches.records import HEADER_MEMORY, RECORD_MEMORY, read_records
from tidemill.http.v1.brokers import Brokers, Unreachable
from tidemill.http.v1.budgets import FREE_BYTES, Budgets
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.kafka_errors import RETRY_AFTER_S, without_leader
from tidemill.http.v1.silence import ended_after
from tidemill.metadata.image import Topic
from tidemill.model import errors
from tidemill.timer.schedule import BATCH_SCHEDULES_MAX
from tidemill.timer.timer_headers import SCHEDULE
from tidemill.wire.messages import produce

BATCH_BYTES: Final = 256 << 10  # of records in a batch; a larger record is a batch of its own
WAITING_BYTES_MAX: Final = 2 << 20  # of memory of records that are not written yet: some thousands of small ones
ANSWER_S_MAX: Final = 15.0  # for a batch, with the wait for its leader: clients give up after 20 s
RETRY_S_MAX: Final = 10.0  # for how long a leader that moves is asked again: longer than most elections
SCARCE_S_MAX: Final = 1.0  # likewise, while others need the memory of the records: longer than a transfer of leadership
SCARCE_ANSWER_S_MAX: Final = 5.0  # likewise for an answer; longer than it takes, because its outcome is not known then
PAUSE_S: Final = 0.1
RUNS_PER_TURN: Final = 1_000  # they take a millisecond of the event loop
ACKS_ALL: Final = -1
_OVERHEAD: Final = 32  # bytes of a record beside its key, value and headers, about
_MOVING: Final = frozenset({
    errors.NOT_LEADER_OR_FOLLOWER,
    errors.LEADER_NOT_AVAILABLE,
    errors.UNKNOWN_TOPIC_OR_PARTITION,
    errors.UNKNOWN_TOPIC_ID,
})  # fmt: skip
_STATUSES: Final = {
    errors.MESSAGE_TOO_LARGE: 413,
    errors.INVALID_RECORD: 400,
    errors.INVALID_TIMESTAMP: 400,
    errors.INVALID_TOPIC_EXCEPTION: 403,
}


class Run(NamedTuple):
    """Records that follow each other in the request and in a partition; those with None were not written."""

    partition: int | None
    first_offset: int | None
    length: int


class _Batch:
    __slots__ = ("memory", "records", "schedules", "size")

    def __init__(self) -> None:
        self.records: list[RecordTuple] = []
        self.size = 0
        self.memory = 0
        self.schedules = 0


class _Partition:
    __slots__ = ("batches", "is_refused", "number", "sending", "written")

    def __init__(self, number: int) -> None:
        self.number = number
        self.batches: deque[_Batch] = deque()
        self.written: list[list[int]] = []  # first offset and count
        self.sending: asyncio.Task[None] | None = None
        self.is_refused = False


class RecordRefused(Refused):
    """A leader has refused a batch because of a record; `number` is its place in the batch, or in the request."""

    def __init__(self, number: int, status: int, problem: str, error: str) -> None:
        super().__init__(status, problem, error=error)
        self.number = number
        self._told = status, problem, error

    def at(self, number: int) -> "RecordRefused":
        """Return the same refusal, of a record with another number."""
        return RecordRefused(number, *self._told)

    def named(self, name: str) -> Refused:
        """Return a refusal that names the record."""
        status, problem, error = self._told
        return Refused(status, f"{name}: {problem}", error=error)


class _TooLarge(RecordRefused):
    """A batch is larger than its topic permits: its first record is at fault if there is no other one."""


class _MayBeWritten(Refused):
    """A batch that is refused may be in the log, or is there, but on too few replicas."""


class TopicWriter:
    """Call `add` and `wait_for_room` by turns, then `finish`; and `close` in any case."""

    def __init__(self, brokers: Brokers, topic: Topic, budgets: Budgets) -> None:
        self._brokers = brokers
        self._topic = topic
        self._budgets = budgets
        self._partitions: dict[int, _Partition] = {}
        self._growing: dict[int, _Batch] = {}  # by partition; it is also the last one of its queue
        self._order = array("i"), array("q")  # the runs of records in the request: partition and count
        self._last: int | None = None  # the partition of the last run
        self._batch_bytes = min(BATCH_BYTES, max(brokers.config_of(topic).max_message_bytes - HEADER_BYTES, 1))
        self._keyless = self._led_from(brokers.random_number() % topic.partition_count)
        self._keyless_bytes = 0
        self.waiting_bytes = 0  # of records that are not written yet
        self._asked = 0  # batches that leaders have got, and not answered yet
        self._room = asyncio.Event()
        self.refused: Refused | None = None  # a refusal of a batch: one after which it may be written, if there is any

    def add(self, partition: int | None, record: RecordTuple) -> None:
        """Add a record for a partition of the topic, or for that of its key."""
        key, value, headers, _ = record
        size = _OVERHEAD + (0 if key is None else len(key)) + (0 if value is None else len(value))
        recurs = False
        if headers:
            size += sum(len(name) + len(content or b"") for name, content in headers)
            recurs = any(name == SCHEDULE for name, _ in headers)
        if partition is None:
            count = self._topic.partition_count
            partition = self._keyless_partition(size) if key is None else scan.murmur2(key) % count
        numbers, counts = self._order
        if partition == self._last:
            counts[-1] += 1
        else:
            numbers.append(partition)
            counts.append(1)
            self._last = partition
        batch = self._growing.get(partition)
        if batch is None or batch.size + size > self._batch_bytes or batch.schedules + recurs > BATCH_SCHEDULES_MAX:
            batch = self._growing[partition] = self._next_batch(partition)
        batch.records.append(record)
        batch.schedules += recurs
        batch.size += size
        memory = size + RECORD_MEMORY + HEADER_MEMORY * len(headers)  # an empty record has a few bytes, a header two
        batch.memory += memory
        self.waiting_bytes += memory

    def _next_batch(self, partition: int) -> _Batch:
        queue = self._partitions.get(partition)
        if queue is None:
            queue = self._partitions[partition] = _Partition(partition)
        queue.batches.append(_Batch())
        if queue.sending is None and not queue.is_refused:
            queue.sending = asyncio.get_running_loop().create_task(self._send(queue))
        return queue.batches[-1]

    def _keyless_partition(self, size: int) -> int:
        """Return the partition of a record without a key: the same one until it has got a batch, as in KIP-794."""
        if self._keyless_bytes >= BATCH_BYTES:
            self._keyless = self._led_from((self._keyless + 1) % self._topic.partition_count)
            self._keyless_bytes = 0
        self._keyless_bytes += size
        return self._keyless

    def _led_from(self, partition: int) -> int:
        """Return the first partition from this one on that has a leader, as producers of Kafka do; or this one."""
        count = self._topic.partition_count
        numbers = ((partition + at) % count for at in range(count))
        return next((it for it in numbers if self._brokers.place(self._topic, it) is not None), partition)

    @property
    def is_stopped(self) -> bool:
        """Whether further records are in vain, because a partition has not taken its records."""
        return any(it.is_refused for it in self._partitions.values())

    @property
    def is_in_doubt(self) -> bool:
        """Whether a leader has a batch that it has not answered yet: it may be written, also after `close`."""
        return self._asked > 0

    async def wait_for_room(self, waiting_max: int | None = None) -> None:
        """Return when at most `waiting_max` bytes wait (`WAITING_BYTES_MAX`), or when the writer is stopped."""
        bytes_max = WAITING_BYTES_MAX if waiting_max is None else waiting_max
        while self.waiting_bytes > bytes_max and not self.is_stopped:
            self._room.clear()
            await self._room.wait()

    async def wait_for_answers(self) -> None:
        """Return when no batch is in doubt."""
        while self.is_in_doubt:
            self._room.clear()
            await self._room.wait()

    async def finish(self) -> None:
        """Return when all records are written, except those behind a refusal in the same partition."""
        sending = (it.sending for it in self._partitions.values() if it.sending is not None)
        await asyncio.shield(asyncio.gather(*sending))  # they go on if this is cancelled

    def close(self) -> None:
        """Send nothing more.  Batches in flight may be written."""
        for it in self._partitions.values():
            if it.sending is not None:
                it.sending.cancel()

    def runs(self) -> Iterator[Run]:
        """Yield where the records are, in the order in which they were added."""
        left = {it.number: [run[:] for run in reversed(it.written)] for it in self._partitions.values()}
        missing = 0
        for number, count in zip(*self._order, strict=True):
            written = left[number]
            while count and written:
                if missing:
                    yield Run(None, None, missing)
                    missing = 0
                run = written[-1]
                taken = min(run[1], count)
                yield Run(number, run[0], taken)
                run[0] += taken
                run[1] -= taken
                count -= taken
                if not run[1]:
                    written.pop()
            missing += count
        if missing:
            yield Run(None, None, missing)

    async def _send(self, queue: _Partition) -> None:
        is_done = False
        try:
            while queue.batches:
                batch = queue.batches.popleft()
                if not queue.batches:
                    del self._growing[queue.number]
                encoded = build_batch(batch.records)
                self.waiting_bytes += len(encoded) - batch.memory
                self._room.set()
                del batch  # and its records: a thousand requests in flight would hold megabytes twice
                await self._append_all(queue, encoded)
                self.waiting_bytes -= len(encoded)
                self._room.set()
            queue.sending = None
            is_done = True
        except Refused as refused:
            if self.refused is None or isinstance(refused, _MayBeWritten):
                self.refused = refused
        finally:
            queue.is_refused = not is_done
            self._room.set()

    async def _append_all(self, queue: _Partition, batch: bytearray) -> None:
        """Append a batch; in smaller ones, if it is too large.  Raise Refused."""
        count = read_header(batch).record_count
        try:
            first = await self._append(queue.number, memoryview(batch))
        except RecordRefused as refused:
            if isinstance(refused, _TooLarge) and count > 1:
                records = read_records(batch, name_errors="surrogateescape")
                for half in (records[: count // 2], records[count // 2 :]):
                    await self._append_all(queue, build_batch(half))
                return
            before = sum(written for _, written in queue.written)
            raise refused.at(await self._number_of(queue.number, before + refused.number)) from None
        if queue.written and sum(queue.written[-1]) == first:
            queue.written[-1][1] += count
        else:
            queue.written.append([first, count])

    async def _number_of(self, partition: int, place: int) -> int:
        """Return the number in the request, from 0, of the record that has this place among those of its partition."""
        before = 0
        for at, (number, count) in enumerate(zip(*self._order, strict=True)):
            if number == partition:
                if place < count:
                    break
                place -= count
            before += count
            if at % RUNS_PER_TURN == 0:
                await asyncio.sleep(0)
        return before + place

    async def _append(self, partition: int, batch: memoryview) -> int:
        """
        Return the offset of the first record.  Raise Refused; sooner for a partition without a leader if the memory is
        scarce, because records for other partitions wait for it.
        """
        topic = self._topic
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        while True:
            left_s = ANSWER_S_MAX - (loop.time() - began_at)
            answer = await self._answer(partition, batch, max(round(left_s * 1_000), 0))
            if answer is not None and not answer.error_code:
                return int(answer.base_offset)
            if answer is not None and answer.error_code not in _MOVING:
                raise _refused(answer, topic, partition)
            if loop.time() - began_at >= (SCARCE_S_MAX if self._budgets.is_scarce else RETRY_S_MAX):
                raise without_leader(topic, partition)
            await asyncio.sleep(PAUSE_S)

    async def _answer(self, partition: int, batch: memoryview, timeout_ms: int) -> Any:
        """Return the leader's answer; None if there is no leader now."""
        topic = self._topic
        place = self._brokers.place(topic, partition)
        if place is None:
            return None
        asked = produce.Request.Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_data=[produce.Request.Topic.Partition(index=partition, records=batch)],
        )
        request = produce.Request(acks=ACKS_ALL, timeout_ms=timeout_ms, topic_data=[asked])
        self._asked += 1
        try:
            async with asyncio.timeout(None) as limit:
                with ended_after(limit, SCARCE_ANSWER_S_MAX, lambda: self._is_in_the_way):
                    response = await self._brokers.ask_listener(place.leader, produce.API, request)
        except TimeoutError as late:
            self._answered()
            problem = "its leader has not answered yet, and other requests need the memory"
            raise _unknown(topic, partition, problem) from late
        except Unreachable as lost:
            self._answered()
            if not lost.is_sent:
                return None
            raise _unknown(topic, partition, str(lost)) from lost
        self._answered()
        ((answer,),) = (it.partition_responses for it in response.responses)
        return answer

    @property
    def _is_in_the_way(self) -> bool:
        """Whether others need the memory of the records that wait here."""
        return self._budgets.is_scarce and self.waiting_bytes > FREE_BYTES

    def _answered(self) -> None:
        self._asked -= 1
        self._room.set()


def _unknown(topic: Topic, partition: int, problem: str) -> _MayBeWritten:
    return _MayBeWritten(
        503,
        f"it is not known whether partition {partition} of topic {topic.name} has taken the records: {problem}",
        retry_after_s=RETRY_AFTER_S,
        error="REQUEST_TIMED_OUT",
    )


def _refused(answer: Any, topic: Topic, partition: int) -> Refused:
    name = errors.name(answer.error_code)
    detail = answer.error_message or f"partition {partition} of topic {topic.name}: {name}"
    status = _STATUSES.get(answer.error_code)
    if status is None:
        kind = _MayBeWritten if answer.error_code in errors.MAY_BE_WRITTEN else Refused
        return kind(503, detail, retry_after_s=RETRY_AFTER_S, error=name)
    if answer.record_errors:
        at = answer.record_errors[0].batch_index
        return RecordRefused(at, status, detail.removeprefix(f"record {at}: "), name)
    if answer.error_code == errors.MESSAGE_TOO_LARGE:
        return _TooLarge(0, status, detail, name)
    return Refused(status, detail, error=name)
