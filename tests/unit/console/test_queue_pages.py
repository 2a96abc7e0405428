"""The pages of queues and of share groups."""

import re
from collections.abc import Iterable

import pytest

from tests.unit.console.console_world import HOSTILE, View, get, shard
from tests.unit.console.queue_world import GROUP, queue_of, share
from tidemill.client.failures import BrokerUnreachable
from tidemill.console import group_reader, queue_reader
from tidemill.console.group_reader import GroupRow, MemberRow
from tidemill.console.queue_reader import ShareTopics
from tidemill.console.queue_view import Described
from tidemill.model.partition import TopicPartition

CLASSIC = GroupRow(group_id="classic", state="Empty", protocol_type="consumer", coordinator=1, group_type="Classic")
MEMBER = MemberRow(
    member_id="m-1",
    instance_id=None,
    client_id="worker-7",
    host="/127.0.0.1",
    partitions=[TopicPartition("orders", 1), TopicPartition("mails", 0)],
)
QUEUE = "/queue?group=a%20group/1&topic=orders"


@pytest.fixture(autouse=True)
def _groups(monkeypatch: pytest.MonkeyPatch) -> None:
    state = share(
        available=1_200,
        held=7,
        delayed=5,
        archiving=3,
        expired_unread=2,
        oldest_ms=1_700_000_000_000 - 7_300_000,
        blocked_by="tidemill.share.max.tracked",
    )
    shares = [state, Described(end=9)]
    monkeypatch.setattr(group_reader, "list_all", lambda reader: ([GROUP, CLASSIC], ()))
    monkeypatch.setattr(group_reader, "committed", lambda reader, rows: ({}, ()))
    topics = {GROUP.group_id: ShareTopics({"orders": b"o" * 16}, 1_215)}
    monkeypatch.setattr(queue_reader, "topics", lambda reader, rows: (topics if rows else {}, ()))
    monkeypatch.setattr(
        queue_reader, "queues", lambda reader, topics, rows: ([queue_of(*shares)], ("One is missing.",))
    )
    monkeypatch.setattr(queue_reader, "members", lambda reader, row: [MEMBER])


def cells(text: str, row: str) -> list[str]:
    """Return the text of a table row's cells."""
    found = text.partition(f'<tr id="{row}">')[2].partition("</tr>")[0]
    found = re.sub(r"<title>.*?</title>", "", found)
    return [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", found, re.DOTALL)]


def test_queues_are_listed_with_numbers_and_a_bar() -> None:
    """
    The list shows what is available, held, delayed and dead of each queue, what was lost, how old its oldest record is,
    and why it stands still.  Consumer groups have no queues.
    """
    answer = get(View(shard(1)), "/queues")

    row = cells(answer.text, "queue-a group/1-orders")
    expected = ["1,200", "7", "5", "3", "2", "2 hours", "tidemill.share.max.tracked"]
    assert ["a group/1", "orders", "", *expected] == row
    assert "1,200 available, 7 held, 5 delayed, 3 dead, waiting" in answer.text
    assert 4 == answer.text.count("<rect ")
    assert "One is missing." in answer.text and "classic" not in answer.text
    assert 'href="/queue?group=a%20group%2F1&amp;topic=orders"' in answer.text
    assert re.search(r'href="/queues" aria-current="page"', answer.text)


def test_the_list_is_searched_by_group() -> None:
    """
    The search leaves the groups whose id contains its text.
    """
    assert "1–1 of 1 share group" in get(View(), "/queues?q=GROUP").text
    assert "No share groups" in get(View(), "/queues?q=other").text


def test_a_queue_shows_its_partitions_and_members() -> None:
    """
    A queue's page has a row for each partition, also for those that the group has not read, and the members with their
    partitions of this topic.
    """
    answer = get(View(shard(1)), QUEUE)

    assert 200 == answer.status
    first, second = (cells(answer.text, f"partition-{number}") for number in (0, 1))
    assert ["0", "1", "0", "10", "", "1,200", "7", "5", "3", "2", "2 hours", "tidemill.share.max.tracked"] == first
    assert ["1", "1", "–", "9", "The group has not read this partition yet."] == second
    assert ["m-1", "worker-7", "/127.0.0.1", "1"] == cells(answer.text, "member-m-1")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/queue", "There is no share group"),
        ("/queue?group=classic&topic=orders", "There is no share group"),
        ("/queue?group=a%20group/1&topic=mails", "does not read a topic"),
    ],
)
def test_a_queue_that_does_not_exist_is_not_found(path: str, problem: str) -> None:
    """
    A group of another type, and a topic that the share group does not read, have no queue.
    """
    answer = get(View(), path)

    assert (404, True) == (answer.status, problem in answer.text)


def test_a_queue_is_not_called_missing_while_groups_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If a coordinator does not list its groups, the page says so, and not that the queue does not exist.
    """
    monkeypatch.setattr(group_reader, "list_all", lambda reader: ([], ("Groups are missing.",)))

    answer = get(View(), QUEUE)

    assert (200, True) == (answer.status, "Groups are missing." in answer.text)


def test_members_that_are_missing_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If the coordinator does not describe the members, the queue is shown without them, with the reason.
    """

    def fail(reader: object, row: GroupRow) -> list[MemberRow]:
        raise BrokerUnreachable("broker 2 is down")

    monkeypatch.setattr(queue_reader, "members", fail)

    for path in (QUEUE, "/group?id=a%20group/1"):
        text = get(View(shard(1)), path).text
        assert "The members are missing: broker 2 is down" in text and "1,200" in text


def test_a_share_group_shows_its_queues_and_members() -> None:
    """
    The page of a share group has its queues, and the members with all their partitions, in place of committed offsets.
    """
    text = get(View(shard(1)), "/group?id=a%20group/1").text

    assert "orders" == cells(text, "queue-a group/1-orders")[0]
    assert ["m-1", "worker-7", "/127.0.0.1", "mails 0, orders 1"] == cells(text, "member-m-1")
    assert "1,215" in text and "Committed" not in text


def test_groups_of_all_types_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The list of groups shows types, and topics and lag of share groups, whose offsets are not committed.
    """
    asked: list[str] = []

    def committed(reader: object, rows: Iterable[GroupRow]) -> tuple[dict[str, dict[TopicPartition, int]], tuple[str]]:
        asked.extend(row.group_id for row in rows)
        return {}, ("",)

    monkeypatch.setattr(group_reader, "committed", committed)
    text = get(View(), "/groups").text

    assert ["a group/1", "share", "Stable", "orders", "1,215", "2"] == cells(text, "group-a group/1")
    assert ["classic", "classic", "Empty", "–", "–", "1"] == cells(text, "group-classic")
    assert ["classic"] == asked


def test_names_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A group id and a reason are shown as text, whatever they contain.
    """
    queue = queue_of(share(blocked_by=HOSTILE), topic=HOSTILE)
    monkeypatch.setattr(queue_reader, "queues", lambda reader, topics, rows: ([queue], ()))

    assert "<img src=x" not in get(View(), "/queues").text
