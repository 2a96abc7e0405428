"""AddPartitionsToTxn: key 24, v0-5, flexible from v3.

Adds partitions to a transaction that is about to write to them.

v2  may return PRODUCER_FENCED
v3  flexible
v4  request: transactions in place of v3_and_below_transactional_id, v3_and_below_producer_id,
    v3_and_below_producer_epoch, v3_and_below_topics; response: error_code, results_by_transaction in place of
    results_by_topic_v3_and_below; many transactions at once, for brokers only (KIP-890)
v5  may return TRANSACTION_ABORTABLE (KIP-890)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, INT16, INT32, INT64, STRING, array
from tidemill.wire.schema import Api, Message, field


class RequestTopic(Message):
    name: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


class Request(Message):
    class Transaction(Message):
        transactional_id: str = field(STRING)
        producer_id: int = field(INT64)
        producer_epoch: int = field(INT16)
        verify_only: bool = field(BOOL, default=False)
        topics: Sequence[RequestTopic] = field(array(RequestTopic))

    transactions: Sequence[Transaction] = field(array(Transaction), since=4, default=())
    v3_and_below_transactional_id: str = field(STRING, until=4, default="")
    v3_and_below_producer_id: int = field(INT64, until=4, default=0)
    v3_and_below_producer_epoch: int = field(INT16, until=4, default=0)
    v3_and_below_topics: Sequence[RequestTopic] = field(array(RequestTopic), until=4, default=())


class ResponsePartition(Message):
    partition_index: int = field(INT32)
    partition_error_code: int = field(INT16)


class ResponseTopic(Message):
    name: str = field(STRING)
    results_by_partition: Sequence[ResponsePartition] = field(array(ResponsePartition))


class Response(Message):
    class Transaction(Message):
        transactional_id: str = field(STRING)
        topic_results: Sequence[ResponseTopic] = field(array(ResponseTopic))

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16, since=4, default=0)
    results_by_transaction: Sequence[Transaction] = field(array(Transaction), since=4, default=())
    results_by_topic_v3_and_below: Sequence[ResponseTopic] = field(array(ResponseTopic), until=4, default=())


API = Api(key=24, versions=range(6), flexible_from=3, request=Request, response=Response)
