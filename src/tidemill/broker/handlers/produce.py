"""Produce (key 0): v0-13

Appends one batch per partition.  The response is sent when all batches are committed (acks=all) or in this broker's
journal (acks=1).  With acks=0 there is no response, but the request stays in flight until its batches are in the
journal, so that back-pressure applies to it, too.  While the other replicas lag, requests with acks=0 and acks=1 also
wait for them (`shard/uncommitted.py`).  If the other replicas lag too far, nothing is appended, and the error is
NOT_ENOUGH_REPLICAS.

With acks=all and min.insync.replicas above a majority, min.insync.replicas replicas must have the batch on disk, but
at most as many as the topic has (as with Kafka from 3.7 on).  If fewer replicas are alive, nothing is appended, and the
error is NOT_ENOUGH_REPLICAS.  After timeout_ms the error is
NOT_ENOUGH_REPLICAS_AFTER_APPEND if the batch is committed but too few replicas have it, else REQUEST_TIMED_OUT.
REQUEST_TIMED_OUT is also the error if the leader steps down before it can respond: the outcome is then unknown.

After a batch of an idempotent producer was refused with a retriable error, or had an unknown outcome, the producer's
later batches are refused with the same error until it sends that batch again (`broker/clients/pipelines.py`).

v0-2  message formats before v2: each partition is refused with UNSUPPORTED_FOR_MESSAGE_FORMAT
v3    record batch v2; transactional_id (refused: transactions are not implemented)
v8    record_errors, error_message
v10   current_leader and node_endpoints, if an error is NOT_LEADER_OR_FOLLOWER (KIP-951)
v13   topics by id
"""

from functools import partial
from typing import Final

from tidemill.broker.clients.pipelines import SENT_AGAIN, TopicPartition
from tidemill.broker.request.append_refusals import (
    not_accepting,
    request_refusal,
    too_few_replicas,
    unknown_partition,
)
from tidemill.broker.request.awaited_appends import ACKS_ALL, AwaitedAppends
from tidemill.broker.request.leader_hints import Misdirected, add_leader_hints
from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.image import ClusterImage
from tidemill.model import errors
from tidemill.model.internal_topics import is_internal
from tidemill.shard.append import Appended, append_batch
from tidemill.shard.partition import Partition
from tidemill.shard.pending import Pending
from tidemill.wire.messages.produce import Request, Response

COPIED_BYTES_MAX: Final = 16 << 10  # a smaller batch is copied, so that it does not pin its receive buffer
NEW_LEADERS_SINCE: Final = 10

TopicResponse = Response.Topic
PartitionResponse = Response.Topic.Partition


def handle(request: Request, context: RequestContext) -> Response | Pending[Response | None]:
    acks = request.acks
    responses: list[TopicResponse] = []
    broker = context.broker
    response = Response(responses=responses)
    awaited = AwaitedAppends(response, broker.deadlines, request.timeout_ms)
    misdirected: list[Misdirected] = []
    table = broker.shard_table
    refusal = request_refusal(request, context)
    metrics = broker.metrics
    pipelines = context.connection.pipelines
    for topic in request.topic_data:
        name = topic.name or table.name_of(topic.topic_id)
        partitions = table.topics.get(name) if name is not None else None
        is_written_by_cluster = name is not None and is_internal(name)
        answers: list[PartitionResponse] = []
        responses.append(TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        counters = None
        for data in topic.partition_data:
            partition = None if partitions is None else partitions.get(data.index)
            insync = 1
            if partition is not None:
                counters = partition.counters
                insync = _insync_wanted(broker.image, partition)
            topic_partition = (topic.name or topic.topic_id, data.index)
            if refusal is not None:
                appended = refusal
            elif partition is None:
                appended = unknown_partition(context, name, topic.topic_id, data.index)
            elif not partition.shard.accepts_writes:
                appended = not_accepting(partition)
            elif is_written_by_cluster:
                appended = Appended(
                    errors.INVALID_TOPIC_EXCEPTION, message=f"{name} is an internal topic: clients may not write to it"
                )
            elif data.records is None:
                appended = Appended(errors.INVALID_RECORD, message="the request has no records for this partition")
            elif pipelines and (
                code := pipelines.refusal(
                    topic_partition, data.records, partition.log.producers, broker.clock.monotonic_ms()
                )
            ):
                appended = Appended(
                    code, message="an earlier batch of this producer was refused and has not been sent again"
                )
            elif acks == ACKS_ALL and 1 < insync > partition.shard.live_voters:
                appended = too_few_replicas(partition, insync)
            else:
                batch = data.records
                size = len(batch)
                appended = append_batch(
                    partition, bytearray(batch) if size <= COPIED_BYTES_MAX else batch, context.now_ms
                )
                if appended.record_count:
                    metrics.produce_records += appended.record_count
                    metrics.produce_batches += 1
                    metrics.produce_bytes += size
                    partition.counters.records_in += appended.record_count
                    partition.counters.bytes_in += size
            answer = PartitionResponse(
                index=data.index,
                error_code=appended.error_code,
                base_offset=appended.base_offset,
                log_append_time_ms=appended.log_append_time,
                log_start_offset=-1 if partition is None or appended.error_code else partition.log.log_start,
                error_message=appended.message,
            )
            answers.append(answer)
            metrics.produce_refusals += appended.error_code != errors.NONE
            if appended.error_code == errors.NOT_LEADER_OR_FOLLOWER:
                misdirected.append((name, data.index, answer))
            if appended.error_code in SENT_AGAIN and data.records is not None:
                pipelines.refuse(topic_partition, data.records, appended.error_code, broker.clock.monotonic_ms())
            if not appended.error_code and partition is not None:
                lost_leadership = partial(_lost_leadership, context, topic_partition, data.records)
                awaited.wait_for(partition.shard, appended, answer, acks, insync, lost_leadership)
        if counters is not None:
            counters.produce_requests += 1
    if misdirected and context.version >= NEW_LEADERS_SINCE:
        response.node_endpoints = add_leader_hints(context, Response, misdirected)
    if acks == 0:
        awaited.response = None  # acks=0 has no response
        if any(answer.error_code for topic in responses for answer in topic.partition_responses):
            context.connection.close()  # as in Kafka, so that the client looks for the leader again
    awaited.all_begun(acks)
    return awaited.response if awaited.is_done and awaited.response is not None else awaited


def _lost_leadership(context: RequestContext, topic_partition: TopicPartition, batch: memoryview | None) -> None:
    """Refuse the producer's later batches until the client sends `batch` again."""
    if batch is not None:
        now_ms = context.broker.clock.monotonic_ms()
        context.connection.pipelines.refuse(topic_partition, batch, errors.REQUEST_TIMED_OUT, now_ms)


def _insync_wanted(image: ClusterImage, partition: Partition) -> int:
    """Return min.insync.replicas, or the topic's number of replicas if that is smaller.

    A topic may have fewer replicas than its broker's default of min.insync.replicas demands.
    """
    wanted = partition.config.min_insync_replicas
    topic = image.topic(partition.topic) if wanted > 1 else None
    return wanted if topic is None else min(wanted, image.replication_factor(topic))
