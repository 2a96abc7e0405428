"""ListOffsets (key 2): v1-11

Returns offsets by timestamp.  Negative timestamps are special: −1 latest, −2 earliest, −3 largest timestamp (KIP-734),
−4 earliest local (KIP-405), −5 latest tiered (KIP-1005), −6 earliest to be tiered (KIP-1023).  Tidemill has no tiered
storage, so −4 returns the earliest offset, and −5 and −6 find none.

v2  isolation_level: has no effect, because the last stable offset is the high watermark
v4  leader epochs
v5  OFFSET_NOT_AVAILABLE is a possible error: a new leader does not know yet what is committed
v6  flexible
"""

from typing import Final

from tidemill.broker.leadership.leadership import leadership_problem
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.shard import lookup
from tidemill.shard.partition import Partition
from tidemill.shard.pending import Pending
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.wire.messages.list_offsets import Request, Response

LATEST: Final = -1
EARLIEST: Final = -2
LARGEST_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

OFFSET_NOT_AVAILABLE_SINCE: Final = 5  # clients that use older versions do not retry this error (KIP-207)

PartitionRequest = Request.Topic.Partition
PartitionResponse = Response.Topic.Partition
Lookup = tuple[Partition, int, PartitionResponse]  # partition, timestamp, and the response to complete


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    broker = context.broker
    topics = []
    lookups: list[Lookup] = []
    seen: set[tuple[str, int]] = set()
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            partition = broker.shard_table.partition(topic.name, asked.partition_index)
            answer = PartitionResponse(partition_index=asked.partition_index, error_code=errors.NONE)
            key = (topic.name, asked.partition_index)
            answer.error_code = (
                errors.INVALID_REQUEST if key in seen else _problem(context, topic.name, partition, asked)
            )
            seen.add(key)
            if partition is not None and not answer.error_code and not _answer_end(partition, asked, answer):
                lookups.append((partition, asked.timestamp, answer))
            answers.append(answer)
        topics.append(Response.Topic(name=topic.name, partitions=answers))
    response = Response(topics=topics)
    return _look_up(context, lookups, response) if lookups else response


def _problem(context: RequestContext, topic: str, partition: Partition | None, asked: PartitionRequest) -> int:
    if partition is None:
        return context.broker.missing_partition(topic, b"", asked.partition_index)
    code = leadership_problem(partition, asked.current_leader_epoch)
    if code == errors.OFFSET_NOT_AVAILABLE and context.version < OFFSET_NOT_AVAILABLE_SINCE:
        return errors.LEADER_NOT_AVAILABLE
    if code:
        return code
    if asked.timestamp < EARLIEST_PENDING_UPLOAD:
        return errors.UNSUPPORTED_VERSION
    return errors.NONE


def _answer_end(partition: Partition, asked: PartitionRequest, answer: PartitionResponse) -> bool:
    """Set the offset in `answer` if it is known without reading the log.  Return False if the log must be read."""
    log = partition.log
    if asked.timestamp == LATEST:
        answer.offset, answer.leader_epoch = partition.high_watermark, partition.leader_epoch
    elif asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset, answer.leader_epoch = log.log_start, log.epochs.span_at(log.log_start)[0]
    elif asked.timestamp not in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return False
    return True


def _look_up(context: RequestContext, lookups: list[Lookup], response: Response) -> Pending[Response]:
    pending: Pending[Response] = Pending()
    broker = context.broker
    ends = [partition.high_watermark for partition, _, _ in lookups]

    def look_up() -> list[lookup.Stamped | Exception | None]:
        found: list[lookup.Stamped | Exception | None] = []
        for (partition, timestamp, _), end in zip(lookups, ends, strict=True):
            try:
                if timestamp == LARGEST_TIMESTAMP:
                    found.append(lookup.with_largest_timestamp(partition, end))
                else:
                    found.append(lookup.first_at_or_after(partition, timestamp, end))
            except (SegmentDamaged, OffsetGone, ValueError) as error:
                # Its frames refer to `found`, a cycle that would keep what was decompressed until it is collected.
                found.append(error.with_traceback(None))
        return found

    def done(found: list[lookup.Stamped | Exception | None]) -> None:
        for (partition, _, answer), stamped in zip(lookups, found, strict=True):
            if isinstance(stamped, Exception):
                answer.error_code = broker.read_failed(partition, stamped)
            elif stamped is not None:
                answer.offset, answer.timestamp, answer.leader_epoch = stamped
        pending.complete(response)

    broker.machine.opening_jobs.submit(look_up, done, pending.fail)
    return pending
