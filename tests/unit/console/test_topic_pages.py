"""The pages about topics."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.client.fake_cluster import FakeCluster, Topic
from tests.unit.console.console_world import View, broker, closed_port, get, get_all, shard
from tidemill.client.connection_settings import Endpoint
from tidemill.console.cluster_view import LEADERLESS, UNDER_REPLICATED, LocalReplica, Setting
from tidemill.model import errors
from tidemill.peer import timer_list
from tidemill.wire.schema import Message


def cells(text: str, row_id: str) -> list[str]:
    """Return the text in the cells of a row, without tags."""
    row = text.partition(f'id="{row_id}"')[2].partition("</tr>")[0]
    found = []
    for cell in row.replace("<th", "<td").split("<td")[1:]:
        inner = cell.partition(">")[2]
        while "<" in inner:
            before, _, rest = inner.partition("<")
            inner = before + rest.partition(">")[2]
        found.append(" ".join(inner.split()))
    return found


def test_a_topic_is_shown_with_its_partitions() -> None:
    """
    A partition is shown with its state, leader, replicas, offsets, and the size of the replica on this broker.
    """
    text = get(View(shard(1, in_sync=(1,), state=UNDER_REPLICATED)), "/topics/orders").text

    assert [
        "0",
        "under-replicated",
        "1",
        "1, 2 (not in sync)",
        "1",
        "10",
        "1,210",
        "1,200",
        "–",
        "5 B",
        "records of partition 0",
    ] == cells(text, "partition-0")


def test_rates_come_from_two_looks() -> None:
    """
    The first request for the page cannot show how fast a partition grows, but the second one can.
    """
    view = View(shard(1))
    first, second = get_all(view, "/topics", "/topics")
    view.local = LocalReplica(is_leader=True, start_offset=0, end_offset=5, size_bytes=0)

    assert ["–", "0"] == [cells(answer.text, "topic-orders")[5] for answer in (first, second)]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ["a", "b"]),
        ("?internal=1", ["a", "b", "__internal"]),
        ("?state=leaderless", ["b"]),
        ("?state=nonsense", ["a", "b"]),
    ],
)
def test_topics_are_filtered(query: str, shown: list[str]) -> None:
    """
    Internal topics are hidden unless they are requested, and topics in danger can be found by their state.
    """
    view = View(shard(1, "a"), shard(2, "b", state=LEADERLESS, leader=None), shard(3, "__internal"))

    text = get(view, f"/topics{query}").text

    assert shown == [name for name in ("a", "b", "__internal") if f'id="topic-{name}"' in text]


def test_settings_are_shown_with_their_meaning() -> None:
    """
    Only settings that differ from their defaults are shown, and large numbers are also given in words.
    """
    view = View(shard(1))
    view.setting_rows = [Setting(key="retention.ms", value="604800000", source="this topic", documentation="Kept.")]

    text = get(view, "/topics/orders").text

    assert ["retention.ms", "604800000 7 days", "this topic", "Kept."] == cells(text, "setting-retention.ms")


def test_a_leader_that_does_not_respond_leaves_what_is_known() -> None:
    """
    If the leader of a partition does not respond, the page shows the offsets of the replica on this broker, marks them
    as the last known ones, and gives the reason.
    """
    view = View(
        shard(1, leader=2, replicas=(2, 1), in_sync=(2, 1)),
        brokers=[broker(1), broker(2, kafka=Endpoint("127.0.0.1", closed_port()))],
    )
    view.local = LocalReplica(is_leader=False, start_offset=0, end_offset=7, size_bytes=1)

    answer = get(view, "/topics/orders")

    assert (200, "7*") == (answer.status, cells(answer.text, "partition-0")[6])
    assert "led by broker 2 may be missing or outdated: cannot connect to broker" in answer.text


def test_offsets_that_no_living_broker_tells_are_unknown() -> None:
    """
    If a partition has neither a leader nor a replica on this broker, its offsets are shown as unknown, not as 0.
    """
    view = View(shard(1, leader=None, in_sync=(), state=LEADERLESS))
    view.local = None

    text = get(view, "/topics/orders").text

    assert ["–"] * 5 == cells(text, "partition-0")[5:10]


def test_a_list_of_very_large_topics_is_shown_without_their_volume() -> None:
    """
    The number of partitions whose offsets are read for one page is bounded; beyond it, the volume of a topic is
    unknown.
    """
    view = View(shard(1, "a", partition_count=3_000), shard(2, "b", partition_count=3_000))

    text = get(view, "/topics").text

    assert ["1,200", "–"] == [cells(text, f"topic-{name}")[4] for name in ("a", "b")]


@contextmanager
def timer_topic(*answers: Message) -> Iterator[View]:
    """Yield a view of a timer topic whose leader answers requests about timers, in turn."""
    left = [*answers]
    with FakeCluster() as cluster:
        cluster.topics["orders"] = Topic()
        cluster.unlisted = {timer_list.API.key: timer_list.API}
        cluster.hook = lambda _, name, __: left.pop(0) if name == "timer_list" else None
        ((host, port),) = cluster.settings().bootstrap
        view = View(shard(1), brokers=[broker(1, kafka=Endpoint(host, port))])
        view.setting_rows = [Setting(key="tidemill.kind", value="timer", source="this topic", documentation="Kind.")]
        yield view


def test_a_timer_topic_shows_what_waits() -> None:
    """
    The bars are as long as their share of the greatest count.
    """
    stats = timer_list.Response(waiting=1_234, waiting_bytes=2_048, next_due_ms=1_700_000_001_000)
    by_time = timer_list.Response(counts=[4, 0, 0, 1_200, 0, 0, 0, 0, 0, 30])
    with timer_topic(stats, by_time) as view:
        text = get(view, "/topics/orders").text

    assert ["1,234", "2.00 KiB", "2023-11-14"] == [it for it in ("1,234", "2.00 KiB", "2023-11-14") if it in text]
    assert [["within 1s", "4"], ["10m to 1h", "0"], ["after 30d", "30"]] == [
        cells(text, f"due-{it}")[:2] for it in (0, 4, 9)
    ]
    assert 'width="100.0"' in text and 'width="2.5"' in text


def test_a_timer_topic_says_why_it_is_not_known_what_waits() -> None:
    refused = timer_list.Response(error_code=errors.INVALID_REQUEST, error_message="it is being deleted")
    with timer_topic(refused) as view:
        text = get(view, "/topics/orders").text

    assert "What waits is not known: it is being deleted" in text
    assert "Records that wait" not in text


def test_other_topics_show_nothing_that_waits() -> None:
    assert "Records that wait" not in get(View(shard(1)), "/topics/orders").text
