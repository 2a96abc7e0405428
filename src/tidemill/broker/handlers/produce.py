"""Produce (key 0): v0-13

Appends one batch per partition; the answer leaves when all of them are committed (acks=all) or in this broker's
journal (acks=1).  acks=0 has no answer, but counts as under way until then: else nothing would slow it down.

v0-2  older formats: UNSUPPORTED_FOR_MESSAGE_FORMAT, told per partition v3    record batch v2; transactional_id
(refused: transactions are not built yet) v8    record_errors, error_message v10   current_leader with
NOT_LEADER_OR_FOLLOWER (KIP-951) v13   topics by id
"""

from typing import Final

from tidemill.broker.request_context import RequestContext
from tidemill.model import errors
from tidemill.model.topic import INTERNAL_TOPICS
from tidemill.shard.append import Appended, append_batch
from tidemill.shard.partition import Partition
from tidemill.shard.pending import Pending
from tidemill.wire.messages.produce import Request, Response

COPIED_BYTES_MAX: Final = 16 << 10  # a smaller batch is copied, so that keeping it does not pin its receive buffer
ACKS_ALL: Final = -1
ACKS_LEGAL: Final = (-1, 0, 1)

TopicResponse = Response.Topic
PartitionResponse = Response.Topic.Partition


class _Awaited(Pending):
    """Completes when every partition's append is as durable as was asked for."""

    __slots__ = ("response", "waiting")

    keeps_request = True  # batches lie in the request's bytes until the journal has them

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response: Response | None = response
        self.waiting = 1  # the handler itself, until it has begun all appends

    def wait_for(self, partition: Partition, appended: Appended, answer: PartitionResponse, acks: int) -> None:
        self.waiting += 1

        def known(is_durable: bool) -> None:
            if not is_durable:
                answer.error_code = errors.REQUEST_TIMED_OUT
                answer.base_offset = -1
            self.arrived()

        shard = partition.shard
        if acks == ACKS_ALL:
            shard.when_committed(appended.log_index, known)
        else:
            shard.when_durable(appended.log_index, known)

    def arrived(self) -> None:
        self.waiting -= 1
        if not self.waiting:
            self.complete(self.response)


def handle(request: Request, context: RequestContext) -> Response | Pending:
    acks = request.acks
    responses: list[TopicResponse] = []
    awaited = _Awaited(Response(responses=responses))
    broker = context.broker
    table = broker.shard_table
    refusal = _refusal(request, context)
    metrics = broker.metrics
    for topic in request.topic_data:
        name = topic.name or table.name_of(topic.topic_id)
        partitions = table.topics.get(name) if name is not None else None
        answers: list[PartitionResponse] = []
        responses.append(TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        for data in topic.partition_data:
            partition = None if partitions is None else partitions.get(data.index)
            if refusal is not None:
                appended = refusal
            elif partition is None:
                appended = _unknown(context, name, topic.topic_id, data.index)
            elif not partition.shard.is_serving:
                appended = _not_serving(partition)
            elif name in INTERNAL_TOPICS:
                appended = Appended(errors.INVALID_TOPIC_EXCEPTION, message=f"{name} is written by the cluster alone")
            elif data.records is None:
                appended = Appended(errors.INVALID_RECORD, message="the request has no records for this partition")
            elif acks == ACKS_ALL and partition.config.min_insync_replicas > len(partition.shard.replica.voters):
                appended = _too_few_replicas(partition)
            else:
                batch = data.records
                size = len(batch)
                appended = append_batch(
                    partition, bytearray(batch) if size <= COPIED_BYTES_MAX else batch, context.now_ms
                )
                if not appended.error_code:
                    metrics.produce_batches += 1
                    metrics.produce_bytes += size
            answer = PartitionResponse(
                index=data.index,
                error_code=appended.error_code,
                base_offset=appended.base_offset,
                log_append_time_ms=appended.log_append_time,
                log_start_offset=-1 if partition is None or appended.error_code else partition.log.log_start,
                error_message=appended.message,
            )
            answers.append(answer)
            if not appended.error_code and partition is not None:
                awaited.wait_for(partition, appended, answer, acks)
    if acks == 0:
        awaited.response = None  # nothing is sent
        if any(answer.error_code for topic in responses for answer in topic.partition_responses):
            context.connection.close()  # as in Kafka, so that the client looks for the leader again
    awaited.arrived()
    return awaited.response if awaited.is_done and awaited.response is not None else awaited


def _refusal(request: Request, context: RequestContext) -> Appended | None:
    """What makes the whole request wrong."""
    if context.version < 3:
        return Appended(
            errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, message="only record batch v2 (Produce v3 and later) is stored"
        )
    if request.acks not in ACKS_LEGAL:
        return Appended(errors.INVALID_REQUIRED_ACKS, message=f"acks={request.acks}; -1 (all), 0 or 1 are known")
    if request.transactional_id is not None:
        return Appended(
            errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            message="transactions are not built yet: unset transactional.id",
        )
    problem = context.broker.storage_problem()
    if problem is not None:
        return Appended(errors.KAFKA_STORAGE_ERROR, message=problem)
    return None


def _unknown(context: RequestContext, name: str | None, topic_id: bytes, number: int) -> Appended:
    if name is None:
        return Appended(errors.UNKNOWN_TOPIC_ID, message=f"no topic has the id {topic_id.hex()}")
    code = context.broker.missing_partition(name, b"", number)
    if code == errors.NOT_LEADER_OR_FOLLOWER:
        return Appended(code, message=f"partition {number} of {name} is not led here")
    return Appended(code, message=f"topic {name} does not exist, or has no partition {number}")


def _too_few_replicas(partition: Partition) -> Appended:
    wanted, there = partition.config.min_insync_replicas, len(partition.shard.replica.voters)
    return Appended(
        errors.NOT_ENOUGH_REPLICAS,
        message=f"min.insync.replicas of topic {partition.topic} is {wanted}, and it has {there}: lower it",
    )


def _not_serving(partition: Partition) -> Appended:
    if partition.shard.log.damage is not None:
        return Appended(errors.KAFKA_STORAGE_ERROR, message=partition.shard.log.damage)
    return Appended(errors.NOT_LEADER_OR_FOLLOWER, message="the leader has not confirmed its term yet")
