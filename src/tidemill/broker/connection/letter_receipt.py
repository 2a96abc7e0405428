"""Appends the dead letters of share groups to partitions that this broker leads, as Produce with acks=all does."""

from typing import Final

from tidemill.batches.batch import BatchHeader, stamp_only_record
from tidemill.batches.check import checked_header
from tidemill.broker.handlers import produce
from tidemill.broker.request.awaited_appends import ACKS_ALL
from tidemill.broker.request.request_context import RequestContext
from tidemill.peer import share_letter
from tidemill.shard.pending import Pending
from tidemill.timer.without_time import without_time
from tidemill.wire.messages.produce import Request, Response

TIMEOUT_MS: Final = 10_000  # then the outcome is unknown, and the letter is sent again
VERSION: Final = 9  # of Produce: without hints about leaders, which the sender knows itself


def write_letter(request: share_letter.Request, context: RequestContext) -> Pending[share_letter.Response]:
    """Return the answer to a letter, which comes when the letter has committed."""
    topic = Request.Topic
    batch = None if request.records is None else _stamped(request.records, context.now_ms, _is_timer(request, context))
    asked = Request(
        transactional_id=None,
        acks=ACKS_ALL,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            topic(
                topic_id=request.topic_id,
                partition_data=[topic.Partition(index=request.partition, records=batch)],
            )
        ],
    )
    pending: Pending[share_letter.Response] = Pending()

    def answered(response: Response | None) -> None:
        assert response is not None, "acks=all has a response"
        ((answer,),) = (it.partition_responses for it in response.responses)
        pending.complete(share_letter.Response(error_code=answer.error_code, error_message=answer.error_message))

    context = RequestContext(context.broker, context.connection, VERSION, None, context.now_ms)
    outcome = produce.handle(asked, context)
    if isinstance(outcome, Pending):
        outcome.then(answered, pending.fail)
    else:
        answered(outcome)
    return pending


def _is_timer(request: share_letter.Request, context: RequestContext) -> bool:
    table = context.broker.shard_table
    name = table.name_of(request.topic_id)
    partition = None if name is None else table.partition(name, request.partition)
    return partition is not None and partition.arrivals is not None


def _stamped(letter: memoryview, now_ms: int, is_timer: bool) -> memoryview:
    """
    Return a copy of a letter's batch, with the time of this broker: the clock of the sender may be far ahead, and the
    limits on timestamps of the topic would refuse the letter.  A timer topic delivers it at once.

    Return a malformed batch as it is; the append refuses it.
    """
    batch = bytearray(letter)  # the log keeps it, and writes into it; the buffer of the request is used again
    if isinstance(checked_header(batch), BatchHeader):
        if is_timer:
            batch = without_time(batch)
        stamp_only_record(batch, now_ms)
    return memoryview(batch)
