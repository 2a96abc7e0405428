"""The queues on the overview: which ones it shows, and how often and how long it reads them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from threading import Event
from typing import Any, cast

import pytest
from anyio import to_thread

from tests.unit.console.console_world import HOSTILE, Clock, View, broker, get, get_all, shard
from tests.unit.console.queue_world import GROUP, queue_of, share
from tests.unit.console.test_queue_pages import cells
from tidemill.console import group_reader, queue_reader, queue_summary, shared_read
from tidemill.console.cluster_reader import ClusterReader
from tidemill.console.group_reader import GroupRow
from tidemill.console.queue_reader import ShareTopics
from tidemill.console.queue_summary import NOT_READ, QueueSummary, summarize
from tidemill.console.queue_view import Queue
from tidemill.console.shared_read import SharedRead

WAIT_S = 60
SetAnswers = Callable[..., None]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SetAnswers:
    """Return a function that sets what the cluster's brokers answer."""

    def answer(
        *queues: Queue, groups: Sequence[GroupRow] = (GROUP,), problems: Sequence[str] = (), known: bool = True
    ) -> None:
        def topics(reader: ClusterReader, rows: Iterable[GroupRow]) -> tuple[dict[str, ShareTopics], tuple[str, ...]]:
            return {row.group_id: ShareTopics() for row in rows if known}, ()

        monkeypatch.setattr(group_reader, "list_all", lambda reader: (list(groups), tuple(problems)))
        monkeypatch.setattr(queue_reader, "topics", topics)
        monkeypatch.setattr(
            queue_reader, "queues", lambda reader, by_group, partitions: (list(queues) if by_group else [], ())
        )

    return answer


def summary() -> QueueSummary:
    return summarize(cast("ClusterReader", None), lambda _: None)


def queues_part(text: str) -> str:
    return text.partition("<h2>Queues</h2>")[2].partition("<h2>")[0]


def test_queues_that_need_attention_come_first(cluster: SetAnswers) -> None:
    """
    The overview shows five of six queues: those that stand still or are not known, then those with the most available
    records.  All six are counted.
    """
    cluster(
        queue_of(share(available=1), topic="empty"),
        queue_of(share(expired_unread=1), topic="lossy"),
        queue_of(share(available=900), topic="full"),
        queue_of(share(available=2, blocked_by="tidemill.share.order is key"), topic="blocked"),
        queue_of(share(available=9, archiving=1), share(), topic="dead"),
        queue_of(share(available=5), None, topic="silent"),
    )

    found = summary()

    assert (6, []) == (found.count, found.problems)
    assert ["dead", "blocked", "silent", "full", "empty"] == [queue.topic for queue in found.first]


def test_a_bounded_number_of_share_groups_is_read(cluster: SetAnswers, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Only the first share groups are read, because each costs requests to all leaders, and the summary says so.  Other
    groups do not count.
    """
    asked: list[str] = []
    classic = replace(GROUP, group_id="classic", group_type="Classic")
    cluster(groups=[classic, *(replace(GROUP, group_id=f"g-{number:02}") for number in range(60))])
    monkeypatch.setattr(
        queue_reader, "topics", lambda reader, rows: (asked.extend(row.group_id for row in rows) or {}, ())
    )

    found = summary()

    assert [f"g-{number:02}" for number in range(50)] == asked
    assert ["Only the first 50 of 60 share groups are counted."] == found.problems


def test_a_bounded_number_of_problems_is_shown(cluster: SetAnswers) -> None:
    """
    If many brokers are down, the overview shows the first problems and where the others are.
    """
    cluster(problems=[f"Broker {number} is down." for number in range(9)])

    problems = summary().problems

    assert ["Broker 0 is down.", "Broker 1 is down.", "Broker 2 is down."] == list(problems[:3])
    assert ["The page of all queues shows further problems."] == list(problems[3:])


def test_the_overview_shows_queues(cluster: SetAnswers) -> None:
    """
    The overview has the number of queues, a row with links for each of the first few, and a link to all.
    """
    stuck = share(
        available=1_200,
        held=7,
        archiving=3,
        expired_unread=2,
        oldest_ms=1_700_000_000_000 - 7_300_000,
        blocked_by="tidemill.share.max.tracked",
    )
    cluster(queue_of(stuck), *(queue_of(share(available=number), topic=f"t{number}") for number in range(6)))

    text = queues_part(get(View(shard(1)), "/").text)

    expected = ["a group/1", "orders", "", "1,200", "7", "0", "3", "2", "2 hours", "tidemill.share.max.tracked"]
    assert expected == cells(text, "queue-a group/1-orders")
    assert "7 queues. These need attention, or have the most available records." in text
    assert ["t5", "t4", "t3", "t2"] == [f"t{at}" for at in (5, 4, 3, 2, 1, 0) if f'id="queue-a group/1-t{at}"' in text]
    assert 'href="/queue?group=a%20group%2F1&amp;topic=orders"' in text
    assert '<a href="/queues">All queues</a>' in text


def test_the_names_on_the_overview_are_text(cluster: SetAnswers) -> None:
    """
    A topic and a reason are shown as text, whatever they contain.
    """
    cluster(queue_of(share(blocked_by=HOSTILE), topic=HOSTILE))

    assert "<img src=x" not in queues_part(get(View(), "/").text)


def test_a_cluster_without_share_groups_has_no_table_of_queues(cluster: SetAnswers) -> None:
    """
    Without share groups, and while none reads a topic, the overview has one line in place of the table.
    """
    for groups in ([], [GROUP]):
        cluster(groups=groups)
        text = queues_part(get(View(shard(1)), "/").text)
        assert "No share group reads a topic." in text and "<table" not in text


def test_queues_that_are_not_known_are_called_so() -> None:
    """
    If no broker answers, the overview does not say that there are no queues, but that they are not known, and why.
    """
    view = View(shard(1), brokers=[broker(1), broker(2, is_up=False)])

    text = queues_part(get(view, "/").text)

    assert "The queues are not known." in text and "No share group" not in text
    assert "Groups coordinated by broker 2 are missing: broker 2 is down" in text


class Reads:
    """Reads of a summary that wait until the test lets them end."""

    def __init__(self) -> None:
        self.count = 0
        self.may_end = Event()
        self.ended = Event()

    def __call__(self, reader: ClusterReader, partitions: Any) -> QueueSummary:
        self.count += 1
        assert self.may_end.wait(WAIT_S)
        self.ended.set()
        return QueueSummary(count=self.count, first=(), problems=())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reads]:
    reads = Reads()
    monkeypatch.setattr(queue_summary, "summarize", reads)
    monkeypatch.setattr(shared_read, "WAIT_S", 0.05)
    yield reads
    reads.may_end.set()  # lets the threads end


def summaries_of(clock: Clock) -> SharedRead[QueueSummary]:
    return SharedRead(clock, queue_summary.read, NOT_READ)


def looks(summaries: SharedRead[QueueSummary], clock: Clock, *pauses_ms: int) -> list[int]:
    """Return the count of the summary that a page gets after each pause."""

    async def run() -> list[int]:
        found = []
        for pause_ms in pauses_ms:
            clock.now_ms += pause_ms
            found.append((await to_thread.run_sync(summaries.latest, View())).count)
        return found

    return asyncio.run(run())


def test_a_result_serves_all_pages_of_some_seconds(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    However often the overview is opened, the brokers are asked only every five seconds.
    """
    monkeypatch.setattr(shared_read, "WAIT_S", WAIT_S)
    reads.may_end.set()
    clock = Clock()

    assert [1, 1, 1, 2, 2] == looks(summaries_of(clock), clock, 0, 1_000, 3_999, 1, 4_999)


@pytest.mark.parametrize(("read_ms", "pause_ms"), [(100, 5_000), (900, 9_000), (4_000, 15_000)])
def test_a_cluster_that_takes_long_to_read_is_read_less_often(
    monkeypatch: pytest.MonkeyPatch, read_ms: int, pause_ms: int
) -> None:
    """
    The pause after a read is ten times as long as the read, within bounds.
    """
    clock = Clock()
    counts = iter(range(1, 9))

    def read(reader: ClusterReader, partitions: Any) -> QueueSummary:
        clock.now_ms += read_ms
        return QueueSummary(count=next(counts), first=(), problems=())

    monkeypatch.setattr(queue_summary, "summarize", read)
    monkeypatch.setattr(shared_read, "WAIT_S", WAIT_S)

    assert [1, 1, 2] == looks(summaries_of(clock), clock, 0, pause_ms - 1, 1)


def test_a_page_does_not_wait_for_brokers_that_do_not_answer(reads: Reads) -> None:
    """
    While the brokers do not answer, the overview comes all the same, says that the queues are not known, and starts no
    second read.
    """
    answers = get_all(View(shard(1)), "/", "/", "/")

    assert [(200, True)] * 3 == [(it.status, "The queues are not known." in it.text) for it in answers]
    assert all(NOT_READ.problems[0] in it.text for it in answers)
    assert (1, False) == (reads.count, reads.ended.is_set())


def test_a_slow_read_is_shown_by_a_later_page(reads: Reads) -> None:
    """
    A read that takes longer than a page waits goes on, and a later page shows its result.
    """
    clock = Clock()
    summaries = summaries_of(clock)

    before = looks(summaries, clock, 0)
    reads.may_end.set()
    assert reads.ended.wait(WAIT_S)
    after = next(count for _ in range(WAIT_S * 20) if (count := looks(summaries, clock, 0)[0]))

    assert ([0], 1) == (before, after)


def test_an_old_result_is_not_shown(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    While a read is slow, pages show the last result, but only for half a minute.
    """
    monkeypatch.setattr(shared_read, "WAIT_S", WAIT_S)
    reads.may_end.set()
    clock = Clock()
    summaries = summaries_of(clock)
    first = looks(summaries, clock, 0)
    monkeypatch.setattr(shared_read, "WAIT_S", 0.05)
    reads.may_end.clear()

    assert ([1], [1, 1, 0]) == (first, looks(summaries, clock, 10_000, 20_000, 1))
