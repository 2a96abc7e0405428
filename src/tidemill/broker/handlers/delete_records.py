"""
DeleteRecords (key 21): v0-2

Deletes the records of partitions below given offsets, by moving the log start offsets forward.  The response contains
the new log start offsets and is sent when the deletions have committed.  Offset -1 means the high watermark; records
above the high watermark cannot be deleted.

While the disk is full, a deletion is accepted only if it frees a segment; otherwise, the error is KAFKA_STORAGE_ERROR.

If a deletion does not commit within timeout_ms, or this broker loses leadership first, the error is REQUEST_TIMED_OUT.
"""

from typing import Final

from tidemill.broker.clients.deadlines import Deadlines
from tidemill.broker.leadership.leadership import leadership_problem
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.model.internal_topics import is_internal
from tidemill.shard.partition import Partition
from tidemill.shard.pending import Pending
from tidemill.wire.messages.delete_records import Request, Response

TO_HIGH_WATERMARK: Final = -1
UNKNOWN: Final = -1
ANY_EPOCH: Final = -1

PartitionResponse = Response.Topic.Partition


class _Awaited(Pending[Response]):
    """Completes when the outcome of every deletion is known, or when the client's timeout expires."""

    __slots__ = ("_deadlines", "_has_begun", "_timeout_ms", "_unknown", "response")

    def __init__(self, response: Response, deadlines: Deadlines, timeout_ms: int) -> None:
        super().__init__()
        self.response = response
        self._unknown = 0  # the number of deletions whose outcome is not known yet
        self._has_begun = False  # True once every deletion of the request has begun
        self._deadlines = deadlines
        self._timeout_ms = max(timeout_ms, 0)

    def move(self, partition: Partition, offset: int, now_ms: int, answer: PartitionResponse) -> None:
        answer.error_code = errors.REQUEST_TIMED_OUT  # replaced if the deletion commits in time
        self._unknown += 1
        shard = partition.shard

        def known(is_committed: bool) -> None:
            if self.is_done:
                return
            if is_committed:
                answer.low_watermark, answer.error_code = partition.log_start, errors.NONE
            self._unknown -= 1
            self._complete_if_done()

        shard.when_committed(shard.move_log_start(partition.number, offset, now_ms), known)

    def all_begun(self) -> None:
        self._has_begun = True
        self._deadlines.add(self, self._timeout_ms)
        self._complete_if_done()

    def expire(self) -> None:
        self.complete(self.response)

    def _complete_if_done(self) -> None:
        if self._has_begun and not self._unknown:
            self._deadlines.remove(self, self._timeout_ms)
            self.complete(self.response)


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    topics: list[Response.Topic] = []
    awaited = _Awaited(Response(topics=topics), context.broker.deadlines, request.timeout_ms)
    table = context.broker.shard_table
    for topic in request.topics:
        answers: list[PartitionResponse] = []
        topics.append(Response.Topic(name=topic.name, partitions=answers))
        for asked in topic.partitions:
            answer = PartitionResponse(
                partition_index=asked.partition_index, low_watermark=UNKNOWN, error_code=errors.NONE
            )
            answers.append(answer)
            partition = table.partition(topic.name, asked.partition_index)
            if partition is None:
                answer.error_code = context.broker.missing_partition(topic.name, b"", asked.partition_index)
                continue
            offset = partition.high_watermark if asked.offset == TO_HIGH_WATERMARK else asked.offset
            answer.error_code = _problem(topic.name, partition, offset)
            if answer.error_code:
                continue
            if offset <= partition.log_start:
                answer.low_watermark = partition.log_start
            elif context.broker.storage_problem() is not None and not partition.log.frees(offset):
                answer.error_code = errors.KAFKA_STORAGE_ERROR  # the deletion's row would take up space and free none
            else:
                awaited.move(partition, offset, context.now_ms, answer)
    awaited.all_begun()
    return awaited.response if awaited.is_done else awaited


def _problem(topic: str, partition: Partition, offset: int) -> int:
    if is_internal(topic):
        return errors.INVALID_TOPIC_EXCEPTION
    if "delete" not in partition.config.cleanup_policy:
        return errors.POLICY_VIOLATION
    code = leadership_problem(partition, ANY_EPOCH)
    if code:
        return code
    if not partition.shard.accepts_writes:
        return errors.NOT_LEADER_OR_FOLLOWER  # leadership is being transferred
    return errors.NONE if 0 <= offset <= partition.high_watermark else errors.OFFSET_OUT_OF_RANGE
