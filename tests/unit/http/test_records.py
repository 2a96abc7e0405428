"""Records as JSON: what a partition without a leader costs those that write to others."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from tidemill.batches.builder import build_batch
from tidemill.batches.records import Record
from tidemill.http.answer import JSON_TYPE
from tidemill.http.v1 import records, silence, topic_writer
from tidemill.http.v1.budgets import BYTES_MAX, FREE_BYTES, Budgets, Taken, begin
from tidemill.http.v1.calls import respond
from tidemill.http.v1.decoded_bodies import BYTES_MAX as DECODED_BYTES_MAX
from tidemill.http.v1.decoded_bodies import ITEM_MEMORY
from tidemill.model.topic_config import TopicConfig, compile_topic_config
from tidemill.sdk.api_client import RESPONSE_S_MAX
from tidemill.wire.messages import produce

EMPTY = Record(None, None)
EMPTY_BYTES = len(build_batch([EMPTY] * 2)) - len(build_batch([EMPTY]))  # of a record without anything in a batch
MANY = DECODED_BYTES_MAX // ITEM_MEMORY // 5 - 100  # records: five bodies of them have nearly all memory
HELD = FREE_BYTES // EMPTY_BYTES + 10  # records, whose batch counts although their body does not
OTHERS_S_MAX = 5.0  # for a write to another topic, on a busy machine
SCARCE_S = 0.2


class BrokersStub:
    """
    Stands for the leaders of all topics: that of `lost` is not known until it is `found`, and that of `slow` waits for
    its replicas until then.
    """

    wall_ms = 1_000
    config = compile_topic_config()

    def __init__(self) -> None:
        self.budgets = Budgets()
        self.found = asyncio.Event()
        self.timeouts_ms: list[int] = []

    def random_number(self) -> int:
        return 1

    def config_of(self, _: object) -> TopicConfig:
        return self.config

    def place(self, topic: Any, _: object) -> Any:
        return None if topic.name == "lost" and not self.found.is_set() else SimpleNamespace(leader=1)

    async def ask_listener(self, _: object, __: object, request: produce.Request, ___: object = None) -> Any:
        self.timeouts_ms.append(request.timeout_ms)
        if request.topic_data[0].name == "slow":
            await self.found.wait()
        answer = SimpleNamespace(error_code=0, error_message=None, base_offset=0)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[answer])])

    async def send(self, topic: str, count: int) -> tuple[int, Any]:
        """Send so many records, and return the status and the body of the response."""
        parts = [{"type": "http.request", "body": b'{"records": [' + b",".join([b"{}"] * count) + b"]}"}]

        async def receive() -> dict[str, Any]:
            return parts.pop() if parts else await asyncio.Future()

        scope = {"type": "http", "method": "POST", "headers": [(b"content-type", JSON_TYPE.encode())]}
        scope |= {"query_string": b"", "path_params": {"topic": topic}, "path": "/records"}
        with begin(scope, self.budgets):
            response = await respond({JSON_TYPE: records.ROUTES[0]}, self, Request(scope, receive))  # type: ignore[arg-type]
        return response.status_code, json.loads(bytes(response.body))


@pytest.fixture(autouse=True)
def known_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    def topic_of(call: Any) -> Any:
        return SimpleNamespace(name=call.names["topic"], topic_id=bytes(16), partition_count=1)

    monkeypatch.setattr(records, "topic_of", topic_of)
    monkeypatch.setattr(topic_writer, "PAUSE_S", 0.01)
    monkeypatch.setattr(topic_writer, "SCARCE_S_MAX", SCARCE_S)
    monkeypatch.setattr(topic_writer, "SCARCE_ANSWER_S_MAX", SCARCE_S)
    monkeypatch.setattr(silence, "CHECK_S", SCARCE_S / 10)


@pytest.mark.parametrize(("topic", "error"), [("lost", "LEADER_NOT_AVAILABLE"), ("slow", "REQUEST_TIMED_OUT")])
@pytest.mark.parametrize("has_decoded", [True, False])
def test_a_topic_without_a_leader_or_replicas_holds_up_no_other(has_decoded: bool, topic: str, error: str) -> None:
    """
    Large writes to the topic wait, and have all the memory that others need: as many as that takes are refused.  They
    can be sent again if no leader has got them.  It is the memory of decoded bodies, or that of bodies, which lines
    take, too.
    """

    async def run() -> list[tuple[int, Any]]:
        brokers, count = BrokersStub(), MANY if has_decoded else HELD
        waiting = [asyncio.ensure_future(brokers.send(topic, count)) for _ in range(5)]
        await asyncio.sleep(2 * SCARCE_S)
        assert not any(it.done() for it in waiting), "nobody needs their memory yet"
        with Taken(brokers.budgets) as upload:
            upload.body(0 if has_decoded else BYTES_MAX)
            assert 200 == (await asyncio.wait_for(brokers.send("kept", count), OTHERS_S_MAX))[0]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=OTHERS_S_MAX)
        brokers.found.set()
        return await asyncio.gather(*waiting)

    found = asyncio.run(run())

    refused = [(status, body) for status, body in found if status != 200]
    assert {(503, error)} == {(status, body["error"]) for status, body in refused}
    assert {None} == {place for _, body in refused for place in body["written"]}, "none of them has been written"


def test_a_small_write_waits_for_replicas_also_if_memory_is_scarce() -> None:
    """It has no memory that others need, and its outcome would not be known."""

    async def run() -> tuple[int, Any]:
        brokers = BrokersStub()
        Taken(brokers.budgets).body(BYTES_MAX)
        writing = asyncio.ensure_future(brokers.send("slow", 1))
        await asyncio.sleep(3 * SCARCE_S)
        brokers.found.set()
        return await asyncio.wait_for(writing, OTHERS_S_MAX)

    assert 200 == asyncio.run(run())[0]


def test_a_write_waits_while_leadership_is_transferred_also_if_memory_is_scarce(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another broker leads within a moment."""
    monkeypatch.setattr(topic_writer, "SCARCE_S_MAX", OTHERS_S_MAX)

    async def run() -> tuple[int, Any]:
        brokers = BrokersStub()
        Taken(brokers.budgets).body(BYTES_MAX)
        writing = asyncio.ensure_future(brokers.send("lost", 1))
        await asyncio.sleep(SCARCE_S / 2)
        brokers.found.set()
        return await asyncio.wait_for(writing, OTHERS_S_MAX)

    assert 200 == asyncio.run(run())[0]


def test_a_leader_answers_before_the_client_gives_up() -> None:
    """
    It waits for replicas, and then says what is known.  What the request has waited for the leader is part of the time.
    """

    async def run() -> list[int]:
        brokers = BrokersStub()
        writing = asyncio.ensure_future(brokers.send("lost", 1))
        await asyncio.sleep(0.3)
        brokers.found.set()
        await asyncio.gather(writing, brokers.send("kept", 1))
        return sorted(brokers.timeouts_ms)

    after_wait_ms, at_once_ms = asyncio.run(run())

    assert 300 <= at_once_ms - after_wait_ms + 20
    assert at_once_ms < (RESPONSE_S_MAX - 2) * 1_000
