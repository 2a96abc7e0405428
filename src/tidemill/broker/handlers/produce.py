"""Produce (key 0): v0-13

Appends one batch per partition.  The response is sent when all batches are committed (acks=all) or in this broker's
journal (acks=1).  With acks=0 there is no response, but the request stays in flight until its batches are in the
journal, so that back-pressure applies to it, too.  While the other replicas lag behind, requests with acks=0 and acks=1
also wait for them (`shard/uncommitted.py`).  If the other replicas lag too far, nothing is appended, and the error is
NOT_ENOUGH_REPLICAS.

With acks=all and min.insync.replicas above a majority, that many replicas must have the batch on disk, or all replicas
if the topic has fewer (as in Kafka since 3.7).  If fewer replicas are alive, nothing is appended, and the error is
NOT_ENOUGH_REPLICAS.  After timeout_ms, the error is NOT_ENOUGH_REPLICAS_AFTER_APPEND if the batch is committed but on
too few replicas, and otherwise REQUEST_TIMED_OUT.  REQUEST_TIMED_OUT is also the error if the leader steps down before
it can respond, because the outcome is then unknown.

If the topic's compression.type names a codec other than the batch's, the batch is first recompressed off the event loop
(`batches/recompression.py`).  A batch that cannot be decompressed is refused with CORRUPT_MESSAGE.

Records of timer topics may have schedules, which take long.  When the batches for timer topics, of all connections,
have taken a while, further ones are appended in later turns of the event loop (`broker/timers/arrival_turns.py`).

After a batch from an idempotent producer has been refused with a retriable error, or its outcome has become unknown,
the producer's later batches are refused with the same error until it sends that batch again
(`broker/clients/pipelines.py`).

v0-2  message formats before v2: each partition is refused with UNSUPPORTED_FOR_MESSAGE_FORMAT
v3    record batch v2; transactional_id (refused: transactions are not implemented)
v8    record_errors, error_message
v10   current_leader and node_endpoints, if an error is NOT_LEADER_OR_FOLLOWER (KIP-951)
v13   topics by id
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from tidemill.batches.check import BatchProblem
from tidemill.batches.recompression import Recompression
from tidemill.broker.clients.pipelines import SENT_AGAIN, TopicPartition
from tidemill.broker.clients.recompressor import Results, size_of
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
from tidemill.shard.recompression import must_recompress, recompression_of
from tidemill.wire.messages.produce import Request, Response

COPIED_BYTES_MAX: Final = 16 << 10  # a smaller batch is copied, so that it does not pin its receive buffer
NEW_LEADERS_SINCE: Final = 10

TopicRequest = Request.Topic
TopicResponse = Response.Topic
PartitionResponse = Response.Topic.Partition
RecordError = PartitionResponse.RecordError


def handle(request: Request, context: RequestContext) -> Response | Pending[Response | None]:
    production = _Production(request, context)
    production.response.responses = production.append(request.topic_data)
    return _Continued(production, context) if production.deferred else production.finish()


class _Deferred(NamedTuple):
    """A batch that is appended in a later turn of the event loop, and the position of its response in the list of
    responses.
    """

    topic: TopicRequest
    partition: int
    batch: memoryview
    recompression: Recompression | None  # that comes before; None if none does
    answers: list[PartitionResponse]
    at: int


class _Production:
    """One Produce request in progress."""

    __slots__ = ("_awaited", "_context", "_misdirected", "_request", "deferred", "response")

    def __init__(self, request: Request, context: RequestContext) -> None:
        self._request = request
        self._context = context
        self._misdirected: list[Misdirected] = []
        self.response = Response(responses=[])
        self._awaited = AwaitedAppends(self.response, context.broker.deadlines, request.timeout_ms)
        self.deferred: list[_Deferred] = []

    def append(self, topics: Sequence[TopicRequest], *, is_again: bool = False) -> list[TopicResponse]:
        """
        Append the batches of `topics` and return their responses; batches that must first be recompressed, or wait for
        another turn, are added to `deferred`.  `is_again` means that the request has already been counted.
        """
        context = self._context
        broker = context.broker
        table = broker.shard_table
        of_all = request_refusal(self._request, context)
        responses: list[TopicResponse] = []
        for topic in topics:
            name = topic.name or table.name_of(topic.topic_id)
            partitions = table.topics.get(name) if name is not None else None
            answers: list[PartitionResponse] = []
            responses.append(TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
            counters = None
            for data in topic.partition_data:
                batch, topic_partition = data.records, (topic.name or topic.topic_id, data.index)
                partition = None if partitions is None else partitions.get(data.index)
                insync = 0
                if partition is not None:
                    partition = partition.arrivals or partition  # where a timer topic's records wait until due
                    counters = partition.counters
                    insync = _insync_wanted(broker.image, partition)
                if of_all is not None:
                    appended = of_all
                elif partition is None:
                    appended = unknown_partition(context, name, topic.topic_id, data.index)
                elif batch is None:
                    appended = Appended(errors.INVALID_RECORD, message="the request has no records for this partition")
                elif refusal := self._refusal(partition, topic_partition, batch, insync):
                    appended = refusal
                elif partition.compression is not None and must_recompress(partition, batch):
                    recompression = recompression_of(partition, batch, context.now_ms)
                    self._defer(topic, data.index, batch, recompression, answers)
                    continue
                elif partition.is_hidden and broker.arrival_turns.is_over:
                    self._defer(topic, data.index, batch, None, answers)
                    continue
                else:
                    appended = self._append_batch(partition, batch)
                answer = _answer(appended, data.index, partition)
                answers.append(answer)
                if appended.error_code:
                    self._note_refusal(answer, name, topic_partition, partition, batch)
                elif partition is not None:
                    lost_leadership = partial(_lost_leadership, context, topic_partition, batch)
                    self._awaited.wait_for(
                        partition.shard, appended, answer, self._request.acks, insync, lost_leadership
                    )
            if counters is not None and not is_again:
                counters.produce_requests += 1
        return responses

    def _refusal(
        self, partition: Partition, topic_partition: TopicPartition, batch: memoryview, insync: int
    ) -> Appended | None:
        """Return why the batch is refused before it is looked at; None if it is not."""
        context = self._context
        if not partition.shard.accepts_writes:
            return not_accepting(partition)
        if is_internal(partition.topic):
            return Appended(
                errors.INVALID_TOPIC_EXCEPTION,
                message=f"{partition.topic} is an internal topic: clients may not write to it",
            )
        pipelines = context.connection.pipelines
        if pipelines:
            now_ms = context.broker.clock.monotonic_ms()
            code = pipelines.refusal(topic_partition, batch, partition.log.producers, now_ms)
            if code:
                return Appended(
                    code, message="an earlier batch of this producer was refused and has not been sent again"
                )
        if self._request.acks == ACKS_ALL and 1 < insync > partition.shard.live_voters:
            return too_few_replicas(partition, insync)
        return None

    def _append_batch(self, partition: Partition, batch: memoryview) -> Appended:
        size = len(batch)
        kept = bytearray(batch) if size <= COPIED_BYTES_MAX else batch
        appended = append_batch(partition, kept, self._context.now_ms)
        if appended.record_count:
            metrics, counters = self._context.broker.metrics, partition.counters
            metrics.produce_records += appended.record_count
            metrics.produce_batches += 1
            metrics.produce_bytes += size
            counters.records_in += appended.record_count
            counters.bytes_in += size
        return appended

    def _note_refusal(
        self,
        answer: PartitionResponse,
        name: str | None,
        topic_partition: TopicPartition,
        partition: Partition | None,
        batch: memoryview | None,
    ) -> None:
        """Count a refused batch, and remember what the refusal means for the client's next ones."""
        broker = self._context.broker
        broker.metrics.produce_refusals += 1
        if partition is not None and partition.is_hidden:
            timer_counters = broker.metrics.by_timer_topic.of(partition.topic)
            timer_counters.batches_refused += 1
        if answer.error_code == errors.NOT_LEADER_OR_FOLLOWER:
            self._misdirected.append((name, answer.index, answer))
        if answer.error_code in SENT_AGAIN and batch is not None:
            pipelines = self._context.connection.pipelines
            pipelines.refuse(topic_partition, batch, answer.error_code, broker.clock.monotonic_ms())

    def _defer(
        self,
        topic: TopicRequest,
        index: int,
        batch: memoryview,
        recompression: Recompression | None,
        answers: list[PartitionResponse],
    ) -> None:
        """Keep a batch for `append_deferred`, which also replaces the placeholder response that is added here."""
        self.deferred.append(_Deferred(topic, index, batch, recompression, answers, len(answers)))
        answers.append(PartitionResponse(index=index, error_code=errors.NONE, base_offset=-1))

    def append_deferred(self, deferred: Sequence[_Deferred]) -> None:
        """
        Append the deferred batches as if they came in a new request, because leaders and settings may have changed.
        Batches may be deferred again: this turn may be too short, too, and `compression.type` may have changed.
        """
        for at, it in enumerate(deferred):
            data = TopicRequest.Partition(index=it.partition, records=it.batch)
            topic = TopicRequest(name=it.topic.name, topic_id=it.topic.topic_id, partition_data=[data])
            count = len(self.deferred)
            (answer,) = self.append([topic], is_again=True)[0].partition_responses
            it.answers[it.at] = answer
            if len(self.deferred) > count:
                again = self.deferred[-1] = self.deferred[-1]._replace(answers=it.answers, at=it.at)
                if again.recompression is None:  # the turn is over, so none of the others is looked at
                    self.deferred += deferred[at + 1 :]
                    return

    def recompressed(self, deferred: Sequence[_Deferred], results: Results) -> list[_Deferred]:
        """Return the deferred batches as they are after recompression, without those that could not be recompressed."""
        found, given = [], iter(results)
        for it in deferred:
            result = it.batch if it.recompression is None else next(given)
            if not isinstance(result, BatchProblem):
                found.append(it._replace(batch=memoryview(result), recompression=None))
                continue
            self._context.broker.metrics.produce_refusals += 1
            it.answers[it.at] = PartitionResponse(
                index=it.partition,
                error_code=result.error_code,
                base_offset=-1,
                log_start_offset=-1,
                error_message=result.message,
            )
        return found

    def finish(self) -> Response | Pending[Response | None]:
        """
        Return the response, or a `Pending` that completes with it.  Every batch must have been appended or refused.
        """
        context, acks, awaited = self._context, self._request.acks, self._awaited
        if self._misdirected and context.version >= NEW_LEADERS_SINCE:
            self.response.node_endpoints = add_leader_hints(context, Response, self._misdirected)
        if acks == 0:
            awaited.response = None  # acks=0 has no response
            if any(answer.error_code for topic in self.response.responses for answer in topic.partition_responses):
                context.connection.close()  # as in Kafka, so that the client looks for the leader again
        awaited.all_begun(acks)
        return awaited.response if awaited.is_done and awaited.response is not None else awaited


class _Continued(Pending[Response | None]):
    """
    The response to a request with batches that are appended in later turns: those that must be recompressed on other
    threads before, and those for which this turn was too short.

    The connection begins no other request until these batches have been appended, so that its batches stay in order.
    """

    __slots__ = ("_bytes", "_context", "_production")

    keeps_request = True  # the batches are read from the request's bytes

    def __init__(self, production: _Production, context: RequestContext) -> None:
        super().__init__()
        self._production = production
        self._context = context
        self._bytes = 0  # size of the recompressed batches; `ConnectionMemory` counts it until the request is answered
        context.connection.hold()
        self._continue()

    def _continue(self) -> None:
        deferred, self._production.deferred = self._production.deferred, []
        asked = [it.recompression for it in deferred if it.recompression is not None]
        broker = self._context.broker
        if asked:
            broker.recompressor.submit(asked, partial(self._recompressed, deferred), self._abandon)
        else:
            broker.arrival_turns.wait(partial(self._append, deferred))

    def _recompressed(self, deferred: Sequence[_Deferred], results: Results) -> None:
        self._bytes += size_of(results)
        self._append(self._production.recompressed(deferred, results))

    def _append(self, deferred: Sequence[_Deferred]) -> None:
        try:
            self._production.append_deferred(deferred)
            if self._production.deferred:
                self._continue()
                return
            outcome = self._production.finish()
        except Exception as error:  # a bug; without a response, the connection would wait forever
            self._abandon(error)
            return
        self._context.connection.release()
        if isinstance(outcome, Pending):
            outcome.then(self._answer, self._abandon)
        else:
            self._answer(outcome)

    def _answer(self, response: Response | None) -> None:
        self._context.broker.memory.end_work(self._bytes)
        self.complete(response)

    def _abandon(self, error: BaseException) -> None:
        self._context.broker.memory.end_work(self._bytes)
        self._context.connection.release()
        self.fail(error)


def _answer(appended: Appended, index: int, partition: Partition | None) -> PartitionResponse:
    answer = PartitionResponse(
        index=index,
        error_code=appended.error_code,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time,
        log_start_offset=-1 if partition is None or appended.error_code else partition.log.log_start,
        error_message=appended.message,
    )
    if appended.record_index is not None:
        answer.record_errors = [
            RecordError(batch_index=appended.record_index, batch_index_error_message=appended.message)
        ]
    return answer


def _lost_leadership(context: RequestContext, topic_partition: TopicPartition, batch: memoryview | None) -> None:
    """Refuse the producer's later batches until the client sends `batch` again."""
    if batch is not None:
        now_ms = context.broker.clock.monotonic_ms()
        context.connection.pipelines.refuse(topic_partition, batch, errors.REQUEST_TIMED_OUT, now_ms)


def _insync_wanted(image: ClusterImage, partition: Partition) -> int:
    """Return min.insync.replicas, or the topic's number of replicas if that is smaller.

    A topic may have fewer replicas than the broker's default for min.insync.replicas requires.
    """
    wanted = partition.config.min_insync_replicas
    topic = image.topic(partition.topic) if wanted > 1 else None
    return wanted if topic is None else min(wanted, image.replication_factor(topic))
