"""Looking up offsets for HTTP clients."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.http.v1.calls import Refused
from tidemill.http.v1.partition_offsets import offsets_at
from tidemill.model import errors
from tidemill.wire.messages import list_offsets

TOPIC: Any = SimpleNamespace(name="t")
Answer = list_offsets.Response.Topic.Partition


class LeaderStub:
    """Stands for the broker that leads all partitions: it answers with the same error for each."""

    def __init__(self, error_code: int) -> None:
        self._error_code = error_code

    def place(self, _: Any, number: int) -> Any:
        return SimpleNamespace(leader=1, partition=number)

    async def ask_listener(self, *_: Any) -> Any:
        answer = Answer(partition_index=0, error_code=self._error_code)
        return list_offsets.Response(topics=[list_offsets.Response.Topic(name="t", partitions=[answer])])


def test_a_time_in_a_batch_that_cannot_be_looked_into_is_refused() -> None:
    """
    It is not asked for again, as it is while leaders move: the batch stays as it is.
    """
    brokers: Any = LeaderStub(errors.CORRUPT_MESSAGE)

    with pytest.raises(Refused, match="time=1700000000000: partition 0 of topic t") as refused:
        asyncio.run(offsets_at(brokers, TOPIC, [0], 1_700_000_000_000))

    assert 422 == refused.value.answer.status
