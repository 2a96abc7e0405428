"""A Fetch request in progress: it reads the available batches, waits for more if necessary, and responds once.

evaluate ─▶ enough bytes, an error, or the wait is over ─▶ response
   ▲   └──▶ a read must wait for the disk ─▶ reader thread ─▶ evaluate
   └─────── a watched high watermark moved, or the wait is over
"""

from typing import Any, Final

from tidemill.broker.clients.fetch_session import FetchKey, FetchSession, Wanted
from tidemill.broker.leadership.leadership import reading_problem
from tidemill.broker.request.leader_hints import WRONG_LEADER, add_leader_hints
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.shard.partition import REQUEST_COST, Partition
from tidemill.shard.pending import Pending
from tidemill.storage.disk import Buffer
from tidemill.storage.partition.leader_epochs import UNDEFINED_EPOCH
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.telemetry.topic_counters import TopicCounters
from tidemill.wire.messages.fetch import Response

PartitionResponse = Response.Topic.Partition
Read = tuple[list[Buffer], int]
_Answered = tuple[FetchKey, Wanted, Partition | None, PartitionResponse]
NOTHING: Final[Read] = ([], 0)
NEW_LEADERS_SINCE: Final = 16  # the response has had a field for leaders since v12, but clients use it only from v16 on
ENOUGH_BYTES: Final = 4 << 20
"""
A response with this many bytes, and with at least the request's min_bytes, includes no further partitions.

The client processes the response while the broker reads the next one.  The bound also limits how long one Fetch blocks
the event loop.
"""


class DelayedFetch(Pending[Response]):
    __slots__ = (
        "_bytes_max",
        "_bytes_min",
        "_context",
        "_is_reading",
        "_is_scheduled",
        "_is_wait_over",
        "_reads",
        "_reserved",
        "_session",
        "_timer",
        "_watched",
    )

    def __init__(self, context: RequestContext, session: FetchSession, *, bytes_min: int, bytes_max: int) -> None:
        super().__init__()
        self._context = context
        self._session = session
        self._bytes_min = bytes_min
        self._bytes_max = bytes_max
        self._is_wait_over = False
        self._is_reading = False
        self._is_scheduled = False
        self._timer: Any = None
        self._watched: list[Partition] = []
        self._reserved = 0  # upper bound on the bytes in `_reads`, as counted in `ConnectionMemory`
        self._reads: dict[FetchKey, Read | int] = {}  # results of the reader threads: batches, or an error code

    def begin(self, wait_ms: int) -> "Response | DelayedFetch":
        """Return the response if it is due immediately, otherwise this `Pending`."""
        self._is_wait_over = wait_ms <= 0
        response = self._evaluate()
        if response is not None:
            return response
        if not self._is_wait_over:
            self._timer = self._context.broker.machine.call_later(wait_ms / 1000, self._wait_ended)
        return self

    def _wait_ended(self) -> None:
        self._is_wait_over = True
        self._evaluate_again()

    def _notified(self) -> None:
        """Schedule an evaluation of this Fetch: one per turn of the event loop, however many watermarks have moved."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._context.broker.machine.turns.call_soon(self._evaluate_again)

    def _evaluate_again(self) -> None:
        self._is_scheduled = False
        if self.is_done or self._is_reading:
            return
        try:
            response = self._evaluate()
        except Exception as error:  # only this request fails, because the caller must still notify other watchers
            self._release()
            self.fail(error)
            return
        if response is not None:
            self._release()
            self.complete(response)

    def cancel(self) -> None:
        """Release everything that this Fetch holds: the client has disconnected."""
        self._release()
        self.is_done = True
        self._then = self._failed = None

    def _release(self) -> None:
        """Cancel the timer and the watches, and drop the batches that have been read."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for partition in self._watched:
            partition.unwatch(self._notified)
        self._watched = []
        self._forget_reads()

    def _forget_reads(self) -> None:
        self._reads.clear()
        self._context.broker.memory.end_read(self._reserved)
        self._reserved = 0

    def _evaluate(self) -> Response | None:
        """
        Return the response if it is due.  Otherwise, return None: a timer, a watch or a reader thread will evaluate
        again.
        """
        table = self._context.broker.shard_table
        answers: list[_Answered] = []
        total = 0
        has_error = False
        bytes_max = min(self._bytes_max, self._context.broker.memory.response_room())
        enough = min(bytes_max, max(ENOUGH_BYTES, self._bytes_min))
        to_read: list[tuple[FetchKey, Wanted, Partition, int]] = []
        partitions: list[Partition] = []
        for key, wanted in self._session.wanted.items():
            name = key[0] or table.name_of(key[1])  # type: ignore[arg-type]
            partition = table.partition(name, key[2]) if name is not None else None
            code = self._problem(key, wanted, partition)
            if code or partition is None:
                answers.append((key, wanted, partition, _refused(key, code)))
                has_error = True
                continue
            diverging = _diverging(partition, key, wanted)
            if diverging is not None:
                answers.append((key, wanted, partition, diverging))
                has_error = True
                continue
            partitions.append(partition)
            room = min(wanted.bytes_max, bytes_max - total) if total < enough else 0
            found = self._read(key, wanted, partition, room, is_first=total == 0)
            if found is None:
                to_read.append((key, wanted, partition, max(room, 1)))
                # The partition's part of the response stays empty if the other partitions have enough bytes without it.
                answers.append((key, wanted, partition, _answer(partition, key, [])))
                continue
            if isinstance(found, int):
                answers.append((key, wanted, partition, _refused(key, found)))
                has_error = True
                continue
            total += found[1]
            answers.append((key, wanted, partition, _answer(partition, key, found[0])))
        if to_read and total < enough:
            self._read_elsewhere(to_read, enough - total, bytes_max - total)
            return None
        if has_error or self._is_wait_over or total >= self._bytes_min or not self._session.wanted:
            return self._build_response(answers)
        if not self._watched:
            self._watched = partitions
            for partition in partitions:
                partition.watch(self._notified)
        self._forget_reads()  # the next evaluation reads up to a newer high watermark
        return None

    def _problem(self, key: FetchKey, wanted: Wanted, partition: Partition | None) -> int:
        broker = self._context.broker
        if partition is None:
            return broker.missing_partition(key[0], key[1], key[2])
        return reading_problem(partition, wanted.leader_epoch, wanted.fetch_offset)

    def _read(
        self, key: FetchKey, wanted: Wanted, partition: Partition, room: int, *, is_first: bool
    ) -> Read | int | None:
        """
        Return the batches of a partition, or an error code, without waiting for the disk.  Return None if a reader
        thread must read the partition.
        """
        if key in self._reads:
            return self._reads[key]
        if room <= 0 and not is_first:
            return NOTHING
        try:
            found = partition.log.read(wanted.fetch_offset, room, partition.high_watermark, may_wait=False)
        except (SegmentDamaged, OffsetGone) as error:
            return self._context.broker.read_failed(partition, error)
        if found is not None and found[1] > room and not is_first:
            return NOTHING  # the batch does not fit into this response: leave it for the next one
        return found

    def _read_elsewhere(
        self, wanted: list[tuple[FetchKey, Wanted, Partition, int]], enough: int, bytes_max: int
    ) -> None:
        """Read partitions in a reader thread until `enough` bytes have been read, but at most about `bytes_max`."""
        broker = self._context.broker
        self._is_reading = True
        broker.metrics.fetch_cache_misses += 1
        reserved = min(bytes_max, enough + max(room for *_, room in wanted))
        self._reserved += reserved
        broker.memory.begin_read(reserved)

        def read() -> dict[FetchKey, Read | Exception]:
            found: dict[FetchKey, Read | Exception] = {}
            taken = 0
            for key, want, partition, room in wanted:
                if taken >= enough:
                    break
                end = partition.high_watermark
                try:
                    result = partition.log.read(want.fetch_offset, min(room, bytes_max - taken), end, may_wait=True)
                except (SegmentDamaged, OffsetGone) as error:
                    found[key] = error
                    continue
                assert result is not None, "a read that may wait answers"
                taken += result[1]
                found[key] = result
            return found

        def done(found: dict[FetchKey, Read | Exception]) -> None:
            self._is_reading = False
            for key, _, partition, _ in wanted:
                result = found.get(key)
                if isinstance(result, Exception):
                    self._reads[key] = broker.read_failed(partition, result)
                elif result is not None:
                    self._reads[key] = result
            self._evaluate_again()

        def failed(error: BaseException) -> None:
            self._release()
            self.fail(error)

        broker.machine.read_jobs.submit(read, done, failed)

    def _build_response(self, answers: list[_Answered]) -> Response:
        session = self._session
        topics: dict[tuple[str, bytes], list[PartitionResponse]] = {}
        counted: dict[tuple[str, bytes], TopicCounters] = {}
        fetched = 0
        for key, wanted, partition, answer in answers:
            bounds = (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
            has_news = answer.error_code or answer.records or answer.diverging_epoch or bounds != wanted.bounds
            if session.is_incremental and not has_news:
                continue
            wanted.bounds = None if answer.error_code else bounds
            topic = key[:2]
            topics.setdefault(topic, []).append(answer)
            if partition is not None:
                counted[topic] = partition.counters
            if answer.records and partition is not None:
                size = sum(len(part) for part in answer.records if not isinstance(part, int))
                fetched += size
                partition.counters.bytes_out += size
                partition.cost += REQUEST_COST + size
                if session.session_id:
                    session.wanted[key] = session.wanted.pop(key)  # for fairness, move the partition to the end
        self._context.broker.metrics.fetch_bytes += fetched
        for counters in counted.values():
            counters.fetch_requests += 1
        responses = [
            Response.Topic(topic=name, topic_id=topic_id, partitions=partitions)  # type: ignore[arg-type]
            for (name, topic_id), partitions in topics.items()
        ]
        return Response(session_id=session.session_id, responses=responses, node_endpoints=self._leader_hints(answers))

    def _leader_hints(self, answers: list[_Answered]) -> list[Response.NodeEndpoint]:
        wrong = [(key, answer) for key, _, _, answer in answers if answer.error_code in WRONG_LEADER]
        if not wrong or self._context.version < NEW_LEADERS_SINCE:
            return []
        table = self._context.broker.shard_table
        misdirected = [(key[0] or table.name_of(key[1]), key[2], answer) for key, answer in wrong]  # type: ignore[arg-type]
        return add_leader_hints(self._context, Response, misdirected)


def _answer(partition: Partition, key: FetchKey, batches: list[Buffer]) -> PartitionResponse:
    return PartitionResponse(
        partition_index=key[2],
        error_code=errors.NONE,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.log_start,
        records=batches,
    )


def _diverging(partition: Partition, key: FetchKey, wanted: Wanted) -> PartitionResponse | None:
    """Return the refusal if the client has read records that were later truncated, otherwise None (KIP-595)."""
    if wanted.last_fetched_epoch < 0:
        return None
    epoch, end = partition.log.epochs.end_offset(wanted.last_fetched_epoch, partition.log.end_offset)
    if epoch == UNDEFINED_EPOCH:
        return _refused(key, errors.OFFSET_OUT_OF_RANGE)  # the client's epoch is newer than any in the log; as in Kafka
    if epoch == wanted.last_fetched_epoch and end >= wanted.fetch_offset:
        return None
    answer = _answer(partition, key, [])
    answer.diverging_epoch = PartitionResponse.DivergingEpoch(epoch=epoch, end_offset=end)
    return answer


def _refused(key: FetchKey, error_code: int) -> PartitionResponse:
    return PartitionResponse(partition_index=key[2], error_code=error_code, high_watermark=-1, records=[])
