"""
OffsetForLeaderEpoch (key 23): v2-4

Returns the end offset of a leader epoch, so that a consumer can detect a truncated log (KIP-320).  The latest epoch
ends at the high watermark.  An epoch older than every known one ends where the oldest known epoch starts.  For an epoch
newer than the latest one, epoch and end offset are -1 (rule A4 of `docs/raft.md`).

v3  replica_id is ignored: replicas use the peer protocol, so every caller is served as a client
"""

from tidemill.broker.leadership.leadership import leadership_problem
from tidemill.broker.request.request_context import RequestContext
from tidemill.wire.messages.offset_for_leader_epoch import Request, Response

PartitionResponse = Response.Topic.Partition


def handle(request: Request, context: RequestContext) -> Response:
    return Response(
        topics=[
            Response.Topic(
                topic=topic.topic, partitions=[_answer(context, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _answer(context: RequestContext, topic: str, asked: Request.Topic.Partition) -> PartitionResponse:
    broker = context.broker
    partition = broker.shard_table.partition(topic, asked.partition)
    if partition is None:
        missing = broker.missing_partition(topic, b"", asked.partition)
        return PartitionResponse(error_code=missing, partition=asked.partition)
    code = leadership_problem(partition, asked.current_leader_epoch)
    if code:
        return PartitionResponse(error_code=code, partition=asked.partition)
    high_watermark = partition.high_watermark
    epoch, end_offset = partition.log.epochs.end_offset(asked.leader_epoch, high_watermark)
    return PartitionResponse(
        error_code=code,
        partition=asked.partition,
        leader_epoch=epoch,
        end_offset=min(end_offset, high_watermark),
    )
