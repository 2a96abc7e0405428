"""The adapters retry requests where a library leaves the retry to the application."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from tests.integration.clients.aiokafka_adapter import AiokafkaClient, LoopThread
from tests.integration.clients.client_port import Client, GroupDescription, Refused
from tests.integration.clients.confluent_adapter import ConfluentClient
from tidemill.model import errors

NO_ERROR = 0


class ConfluentAdmin:
    """
    Answers DescribeGroups requests with the given error codes, one after another.  After NOT_COORDINATOR it keeps
    asking the same broker, as librdkafka does.
    """

    def __init__(self, codes: list[int]) -> None:
        self._codes = codes
        self._is_stale = False

    def describe_consumer_groups(self, groups: list[str]) -> dict[str, "Future[Any]"]:
        code = errors.NOT_COORDINATOR if self._is_stale else self._codes.pop(0)
        self._is_stale = code == errors.NOT_COORDINATOR
        future: Future[Any] = Future()
        if code:
            future.set_exception(KafkaException(KafkaError(code)))
        else:
            future.set_result(SimpleNamespace(state=ConsumerGroupState.STABLE, members=[object()]))
        return {groups[0]: future}


class AiokafkaAdmin:
    def __init__(self, codes: list[int]) -> None:
        self._codes = codes

    async def describe_consumer_groups(self, groups: list[str]) -> list[Any]:
        return [SimpleNamespace(groups=[(self._codes.pop(0), groups[0], "Stable", "consumer", "range", [object()])])]

    async def close(self) -> None: ...


def confluent(codes: list[int]) -> Client:
    class Connected(ConfluentClient):
        def _connected(self) -> Any:
            return ConfluentAdmin(codes)

    return Connected("")


def aiokafka(codes: list[int]) -> Client:
    client = AiokafkaClient.__new__(AiokafkaClient)
    client._loop, client._admin = LoopThread(), AiokafkaAdmin(codes)
    return client


@pytest.fixture(params=[confluent, aiokafka])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[[list[int]], Client]]:
    opened: list[Client] = []

    def connected(codes: list[int]) -> Client:
        opened.append(request.param(codes))
        return opened[-1]

    yield connected
    for client in opened:
        client.close()


def test_a_group_is_described_although_its_coordinator_has_moved(connect: Callable[[list[int]], Client]) -> None:
    """
    The adapters retry DescribeGroups after NOT_COORDINATOR, which both libraries pass on to the application.
    """
    codes = [errors.NOT_COORDINATOR, errors.COORDINATOR_LOAD_IN_PROGRESS, errors.COORDINATOR_NOT_AVAILABLE, NO_ERROR]

    described = connect(codes).describe_group("readers")

    assert GroupDescription(state="stable", member_count=1) == described


def test_any_other_refusal_is_final(connect: Callable[[list[int]], Client]) -> None:
    """
    The adapters raise any other error without a retry, because cases of the client contract expect it.
    """
    with pytest.raises(Refused) as refused:
        connect([errors.GROUP_AUTHORIZATION_FAILED, NO_ERROR]).describe_group("readers")

    assert errors.GROUP_AUTHORIZATION_FAILED == refused.value.code
