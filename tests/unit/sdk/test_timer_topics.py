"""A delay on a topic that has none is an error before the record is sent."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Any

import httpx
import pytest

from tests.unit.sdk.test_api_client import BROKERS, Transport, answer
from tidemill.sdk import timer_topics
from tidemill.sdk.api_client import ApiClient
from tidemill.sdk.async_mill import AsyncMill
from tidemill.sdk.mill import Mill
from tidemill.sdk.problems import BrokersUnavailable, RequestRefused, SendFailed
from tidemill.sdk.record import NewRecord, Sent
from tidemill.sdk.sender import KafkaSender
from tidemill.sdk.timer_topics import TimerTopics

TIMER, LOG = answer(200, {"kind": "timer"}), answer(200, {"kind": "log"})
MISSING = answer(404, {"detail": "topic t does not exist; create it with POST /v1/topics"})


def checked(outcomes: Sequence[httpx.Response], *works: Callable[[TimerTopics], Awaitable[Any]]) -> Transport:
    """Do some work with brokers that answer so, and return what they were asked."""
    transport = Transport(outcomes)

    async def run() -> None:
        api = ApiClient(BROKERS, None, timeout_s=0.5, transport=transport)
        try:
            topics = TimerTopics(lambda: api)
            for work in works:
                await work(topics)
        finally:
            await api.close()

    asyncio.run(run())
    return transport


def test_the_kind_of_a_topic_is_asked_for_seldom() -> None:
    """Also by many records at the same time."""

    async def many(topics: TimerTopics) -> None:
        await asyncio.gather(*(topics.check("a b") for _ in range(9)))

    transport = checked([TIMER], many, lambda topics: topics.check("a b"))

    assert ["/v1/topics/a%20b"] == [it.url.raw_path.decode() for it in transport.requests]


def test_no_caller_passes_those_that_have_waited() -> None:
    """The records of callers have an order, also while it becomes known that their topic is a timer topic."""

    async def many(topics: TimerTopics) -> None:
        ended: list[int] = []

        async def one(number: int) -> None:
            await topics.check("t")
            ended.append(number)

        tasks = []
        while len(ended) < 50:
            tasks.append(asyncio.ensure_future(one(len(tasks))))
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        assert [*range(len(tasks))] == ended

    checked([MISSING, TIMER], many)


def test_the_turns_of_a_topic_end_with_its_callers() -> None:
    """A program may have many topics, such as one for each that waits for a response."""

    async def some(topics: TimerTopics) -> None:
        await topics.turn("a")
        await asyncio.gather(topics.check("b"), topics.turn("b"))
        await asyncio.gather(topics.check("c"), topics.turn("c"), return_exceptions=True)
        assert {} == dict(topics._turns)

    checked([TIMER, LOG], some)


def test_callers_that_wait_share_a_refusal() -> None:
    """Each with an exception of its own: one that is raised again collects the tracebacks of all."""

    async def many(topics: TimerTopics) -> None:
        found = await asyncio.gather(*(topics.check("t") for _ in range(9)), return_exceptions=True)
        assert {"NoTimerTopic"} == {type(it).__name__ for it in found}
        assert 9 == len({*map(id, found)})

    transport = checked([MISSING, LOG], many)

    assert 2 == len(transport.requests)


def test_a_topic_that_was_created_again_has_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What brokers have said counts for a while only, and their newest answer also while they do not answer."""
    monkeypatch.setattr(timer_topics, "KNOWN_S_MAX", -1.0)

    async def refused(topics: TimerTopics) -> None:
        assert not topics.is_known("t")
        for reason in ("kind log", "no broker answered"):
            with pytest.raises(SendFailed, match=reason):
                await topics.check("t")

    checked([TIMER, LOG, answer(503, {"detail": "later"})], lambda topics: topics.check("t"), refused)


def test_a_kind_that_was_known_counts_on_while_brokers_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records may go by Kafka's protocol, and need no API."""
    monkeypatch.setattr(timer_topics, "KNOWN_S_MAX", -1.0)
    both: list[Callable[[TimerTopics], Awaitable[Any]]] = [lambda topics: topics.check("t")] * 2

    transport = checked([TIMER, answer(503, {"detail": "later"})], *both)

    assert len(transport.requests) >= 2


def test_each_topic_has_a_kind_of_its_own() -> None:
    """What one topic is says nothing about another one."""

    async def refused(topics: TimerTopics) -> None:
        assert topics.is_known("a") and not topics.is_known("b")
        with pytest.raises(SendFailed):
            await topics.check("b")

    checked([TIMER, LOG], lambda topics: topics.check("a"), refused)


@pytest.mark.parametrize("described", [LOG, answer(200, {})], ids=["log", "of an older broker"])
def test_a_topic_of_another_kind_is_refused(described: httpx.Response) -> None:
    """The message names the topic, its kind and the fix; the topic may be replaced by one of kind timer."""

    async def refused(topics: TimerTopics) -> None:
        with pytest.raises(SendFailed) as problem:
            await topics.check("t")
        for part in ("topic t", "kind log", "create the topic with tidemill.kind=timer"):
            assert part in str(problem.value)

    checked([described, TIMER], refused, lambda topics: topics.check("t"))


def test_a_topic_that_is_new_is_waited_for() -> None:
    """A broker may hear of a topic a moment after its creation."""
    transport = checked([MISSING, MISSING, TIMER], lambda topics: topics.check("t"))

    assert 3 == len(transport.requests)


def test_a_missing_topic_is_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is not created, as topics of records without a delay are: its kind would be wrong."""
    monkeypatch.setattr(timer_topics, "NEW_TOPIC_S_MAX", 0.0)

    async def refused(topics: TimerTopics) -> None:
        with pytest.raises(SendFailed, match=r"create it with POST /v1/topics and tidemill\.kind=timer"):
            await topics.check("t")

    checked([MISSING], refused)


def test_brokers_that_do_not_answer_fail_the_record() -> None:
    """With the exception that callers of `send` expect."""

    async def refused(topics: TimerTopics) -> None:
        with pytest.raises(SendFailed, match="topic t"):
            await topics.check("t")

    checked([answer(503, {"detail": "later"})], refused)


@pytest.mark.parametrize(
    ("described", "cause"), [(MISSING, RequestRefused), (answer(503, {"detail": "later"}), BrokersUnavailable)]
)
def test_a_failure_has_its_cause(
    monkeypatch: pytest.MonkeyPatch, described: httpx.Response, cause: type[Exception]
) -> None:
    """Callers share it, while what is raised, and collects tracebacks, is their own."""
    monkeypatch.setattr(timer_topics, "NEW_TOPIC_S_MAX", 0.0)

    async def failed(topics: TimerTopics) -> None:
        found = await asyncio.gather(*(topics.check("t") for _ in range(2)), return_exceptions=True)
        assert ["SendFailed"] * 2 == [type(it).__name__ for it in found]
        assert 2 == len({*map(id, found)})
        for it in found:
            assert isinstance(it, SendFailed) and isinstance(it.__cause__, cause)
            assert it.__cause__.__traceback__ is None

    checked([described], failed)


def test_a_caller_that_leaves_does_not_end_the_question_of_another() -> None:
    """The request goes on for those that still wait for it."""

    async def leave(topics: TimerTopics) -> None:
        leaving = asyncio.create_task(topics.check("t"))
        await asyncio.sleep(0)
        staying = asyncio.create_task(topics.check("t"))
        await asyncio.sleep(0)
        leaving.cancel()
        await staying

    transport = checked([TIMER], leave)

    assert 1 == len(transport.requests)


def test_callers_that_all_give_up_early_learn_the_kind_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker takes longer to answer than any of them waits."""
    answered, asked = asyncio.Event(), 0

    async def described(*_: Any) -> Any:
        nonlocal asked
        asked += 1
        await answered.wait()
        return {"kind": "timer"}

    async def impatient(topics: TimerTopics) -> None:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(topics.check("t"), 0.01)
        answered.set()
        await topics.check("t")

    monkeypatch.setattr(TimerTopics, "_described", described)
    checked([], impatient)

    assert 1 == asked


def test_a_client_checks_topics_in_one_event_loop_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if many callers wait for the answer."""
    monkeypatch.setattr(timer_topics, "KNOWN_S_MAX", -1.0)
    mill = AsyncMill(http="127.0.0.1:1")

    async def described(*_: Any) -> Any:
        await asyncio.sleep(0)
        return {"kind": "timer"}

    async def run() -> None:
        async with mill:
            await asyncio.gather(*(mill.timer_topics.check("t") for _ in range(9)))

    monkeypatch.setattr(TimerTopics, "_described", described)
    for _ in range(2):
        asyncio.run(run())


def test_a_request_ends_with_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def silent(_: TimerTopics, topic: str) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(topic)

    async def run() -> None:
        async with AsyncMill(http="127.0.0.1:1") as mill:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(mill.timer_topics.check("t"), 0.01)
            assert [] == ended
        await asyncio.sleep(0)
        assert ["t"] == ended

    monkeypatch.setattr(TimerTopics, "_described", silent)
    asyncio.run(run())


def test_callers_that_wait_fail_when_the_client_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were not cancelled themselves.  The request of one of them has not begun yet."""

    async def silent(*_: Any) -> None:
        await asyncio.Event().wait()

    async def closed(topics: TimerTopics) -> None:
        waiting = [asyncio.ensure_future(topics.check("t")) for _ in range(3)]
        await asyncio.sleep(0.01)
        waiting.append(asyncio.ensure_future(topics.check("u")))
        await asyncio.sleep(0)
        topics.close()
        found = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 20)
        assert [
            ("SendFailed", f"a record was not written to topic {topic}: the client was closed meanwhile")
            for topic in "tttu"
        ] == [(type(it).__name__, str(it)) for it in found]

    async def closed_in_a_group(topics: TimerTopics) -> None:
        with pytest.raises(ExceptionGroup) as failed:
            async with asyncio.TaskGroup() as group:
                group.create_task(topics.check("t"))
                await asyncio.sleep(0.01)
                topics.close()
        assert ["SendFailed"] == [type(it).__name__ for it in failed.value.exceptions]

    monkeypatch.setattr(TimerTopics, "_described", silent)
    checked([], closed)
    checked([], closed_in_a_group)


@pytest.mark.parametrize("more", [{"delay": "5m"}, {"timer_id": "x"}, {"timer_id": "x", "schedule": "every 1m"}])
def test_both_clients_send_no_record_with_a_delay_to_another_topic(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    """Neither sends the record; both ask for the kind of the topic only if the record needs it."""
    asked: list[str] = []

    async def check(_: TimerTopics, topic: str) -> None:
        asked.append(topic)
        raise SendFailed("refused")

    async def run() -> None:
        async with AsyncMill(http="127.0.0.1:1", timeout="1ms") as mill:
            with pytest.raises(SendFailed, match="refused"):
                await mill.send("a", b"", key="k", **more)
            with pytest.raises(SendFailed, match="no broker answered"):
                await mill.send("a", b"")

    monkeypatch.setattr(TimerTopics, "check", check)
    asyncio.run(run())
    with Mill(AsyncMill(http="127.0.0.1:1", timeout="1ms")) as mill:
        with pytest.raises(SendFailed, match="refused"):
            mill.send("b", b"", key="k", **more)
        with pytest.raises(SendFailed, match="refused"):
            mill.send_soon("b", b"", key="k", **more)
        with pytest.raises(SendFailed, match="no broker answered"):
            mill.send("b", b"")

    assert ["a", "b", "b"] == asked


class KeepingSender:
    """A sender that keeps the records."""

    def __init__(self) -> None:
        self.records: list[NewRecord] = []

    problem = KafkaSender.problem

    def begin(self, record: NewRecord) -> "Future[Sent]":
        self.records.append(record)
        sent: Future[Sent] = Future()
        sent.set_result(Sent(record.topic, 0, 0))
        return sent

    def close(self) -> None:
        pass


def test_both_clients_send_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """With their time zones, and with what becomes of missed occurrences."""
    kept, recurs = KeepingSender(), {"schedule": "cron 0 8 * * *", "timezone": "Europe/Berlin", "missed": "none"}

    async def check(*_: Any) -> None:
        pass

    async def run() -> None:
        async with AsyncMill(http="127.0.0.1:1", timeout="1ms") as mill:
            await mill.send("a", b"", key="k", timer_id="a", **recurs)

    monkeypatch.setattr(TimerTopics, "check", check)
    monkeypatch.setattr(AsyncMill, "sender", lambda _: kept)
    asyncio.run(run())
    with Mill(AsyncMill(http="127.0.0.1:1", timeout="1ms")) as mill:
        mill.send("a", b"", key="k", timer_id="a", **recurs)  # type: ignore[arg-type]
        mill.send_soon("a", b"", key="k", timer_id="a", **recurs)  # type: ignore[arg-type]

    expected = [("tidemill-timer-id", b"a"), *((f"tidemill-{name}", text.encode()) for name, text in recurs.items())]
    assert [expected] * 3 == [record.headers for record in kept.records]


HOURLY: dict[str, Any] = {"key": "k", "timer_id": "a", "schedule": "hourly"}
BY_HAND: dict[str, Any] = {"headers": {"tidemill-delay": "soon"}}


@pytest.mark.parametrize("bad", [HOURLY, BY_HAND])
def test_a_record_that_brokers_would_refuse_is_not_sent_with_others(
    monkeypatch: pytest.MonkeyPatch, bad: dict[str, Any]
) -> None:
    """It fails in both clients as over HTTP: in the future of `send_soon`."""
    kept = KeepingSender()

    async def check(*_: Any) -> None:
        pass

    async def run() -> None:
        async with AsyncMill(http="127.0.0.1:1", timeout="1ms") as mill:
            with pytest.raises(SendFailed, match="not written to topic a: tidemill-"):
                await mill.send("a", b"", **bad)
            await mill.send("a", b"", delay="1h")

    monkeypatch.setattr(TimerTopics, "check", check)
    monkeypatch.setattr(AsyncMill, "sender", lambda _: kept)
    asyncio.run(run())
    with Mill(AsyncMill(http="127.0.0.1:1", timeout="1ms")) as mill:
        failed = mill.send_soon("a", b"", **bad)
        mill.send_soon("a", b"", delay="1h")

    assert "not written to topic a: tidemill-" in str(failed.exception(0))
    assert [[("tidemill-delay", b"3600000")]] * 2 == [record.headers for record in kept.records]


@pytest.mark.parametrize("described", [LOG, MISSING, answer(503, {"detail": "later"})])
def test_headers_by_hand_are_checked_for_timer_topics_only(
    monkeypatch: pytest.MonkeyPatch, described: httpx.Response
) -> None:
    """On other topics they have no effect.  Where no broker says what a topic is, the record is sent as it is."""
    monkeypatch.setattr(timer_topics, "NEW_TOPIC_S_MAX", 0.0)

    async def asked(topics: TimerTopics) -> None:
        assert not await topics.is_timer("t")

    checked([described], asked)


@pytest.mark.parametrize("described", [LOG, MISSING, answer(503, {"detail": "later"})])
def test_a_topic_that_is_none_of_timers_is_asked_for_seldom(
    monkeypatch: pytest.MonkeyPatch, described: httpx.Response
) -> None:
    """A program may pass on records with bad headers to a log topic, and each would wait for a broker."""
    monkeypatch.setattr(timer_topics, "NEW_TOPIC_S_MAX", 0.0)
    asked: list[str] = []
    ask = TimerTopics._described

    async def described_once(self: TimerTopics, topic: str) -> Any:
        asked.append(topic)
        return await ask(self, topic)

    async def many(topics: TimerTopics) -> None:
        assert not topics.is_other("t")
        for _ in range(9):
            assert not await topics.is_timer("t")
            assert topics.is_other("t") and not topics.is_other("u")

    monkeypatch.setattr(TimerTopics, "_described", described_once)
    checked([described], many)

    assert ["t"] == asked


def test_a_refused_delay_tells_about_headers_by_hand() -> None:
    """Brokers have said that the topic is of another kind, and are not asked again."""

    async def refused(topics: TimerTopics) -> None:
        with pytest.raises(SendFailed, match="kind log"):
            await topics.check("t")
        assert topics.is_other("t") and not await topics.is_timer("t")

    transport = checked([LOG], refused)

    assert 1 == len(transport.requests)


def test_a_delay_waits_longer_for_a_broker_than_headers_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their short wait, which ends in vain, tells a record that still waits nothing, also if the one before leaves."""
    monkeypatch.setattr(timer_topics, "HEADER_S_MAX", 0.05)
    answered = asyncio.Event()

    async def described(*_: Any) -> Any:
        await answered.wait()
        return {"kind": "timer"}

    async def wait(topics: TimerTopics) -> None:
        waiting = [asyncio.create_task(topics.check("t")) for _ in range(2)]
        assert not await topics.is_timer("t") and topics.is_other("t")
        waiting[0].cancel()
        await asyncio.sleep(0.01)
        assert waiting[0].done() and not waiting[1].done()
        answered.set()
        await waiting[1]
        assert not topics.is_other("t")

    monkeypatch.setattr(TimerTopics, "_described", described)
    checked([], wait)


def test_a_topic_that_has_become_one_of_timers_is_known_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once if a record with a delay finds it, and otherwise after a while."""

    async def found_by_a_delay(topics: TimerTopics) -> None:
        assert not await topics.is_timer("t")
        await topics.check("t")
        assert await topics.is_timer("t") and not topics.is_other("t")

    async def found_later(topics: TimerTopics) -> None:
        assert not await topics.is_timer("t")
        assert await topics.is_timer("t")

    checked([LOG, TIMER], found_by_a_delay)
    monkeypatch.setattr(timer_topics, "KNOWN_S_MAX", -1.0)
    checked([LOG, TIMER], found_later)


@pytest.mark.parametrize("was_timer", [False, True])
def test_a_record_with_bad_headers_does_not_wait_long_for_a_broker(
    monkeypatch: pytest.MonkeyPatch, was_timer: bool
) -> None:
    """On most topics they have no effect.  A topic that was one of timers still counts as one, for each record."""
    monkeypatch.setattr(timer_topics, "HEADER_S_MAX", 0.05)

    async def silent(*_: Any) -> None:
        await asyncio.Event().wait()

    async def asked(topics: TimerTopics) -> None:
        if was_timer:
            await topics.check("t")
        monkeypatch.setattr(timer_topics, "monotonic", lambda: monotonic() + 2 * timer_topics.KNOWN_S_MAX)
        monkeypatch.setattr(TimerTopics, "_described", silent)
        for _ in range(2):
            assert was_timer == await topics.is_timer("t")

    checked([TIMER], asked)


def test_a_topic_is_asked_for_its_kind_because_of_a_bad_header_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Records of a timer topic that are passed on have headers, which are valid.  Bad ones have no effect on other topics,
    where both clients send them.
    """
    kept, asked = KeepingSender(), list[str]()
    passed_on = {"tidemill-deliver-at": "1800000000000", "tidemill-arrival": "7", "tidemill-timestamp": "5"}
    records: list[tuple[str, Any]] = [("a", {}), ("b", {"mine": "x"}), ("c", passed_on), ("d", BY_HAND["headers"])]

    async def is_timer(_: TimerTopics, topic: str) -> bool:
        asked.append(topic)
        return False

    async def run() -> None:
        async with AsyncMill(http="127.0.0.1:1", timeout="1ms") as mill:
            for topic, headers in records:
                await mill.send(topic, b"", headers=headers)

    monkeypatch.setattr(TimerTopics, "is_timer", is_timer)
    monkeypatch.setattr(AsyncMill, "sender", lambda _: kept)
    asyncio.run(run())
    with Mill(AsyncMill(http="127.0.0.1:1", timeout="1ms")) as mill:
        for topic, headers in records:
            mill.send(topic, b"", headers=headers)

    assert ["d", "d"] == asked
    assert [*"abcdabcd"] == [it.topic for it in kept.records]
