"""The pages about groups when coordinators do not respond."""

import pytest

from tests.unit.console.console_world import View, get, shard
from tidemill.client.failures import BrokerUnreachable
from tidemill.console import group_reader
from tidemill.console.cluster_reader import ClusterReader
from tidemill.console.group_reader import GroupDetail, GroupRow, MemberRow
from tidemill.model.partition import TopicPartition

GROUP = GroupRow(group_id="a group/1", state="Stable", protocol_type="consumer", coordinator=2)


@pytest.fixture(autouse=True)
def _groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reader, "list_all", lambda reader: ([GROUP], ()))
    monkeypatch.setattr(group_reader, "committed", lambda reader, rows: ({}, ("Offsets are missing.",)))


def test_groups_are_listed_without_lag_if_the_offsets_are_missing() -> None:
    """
    If a coordinator lists its groups but does not return their committed offsets, the page lists the groups and says
    that the offsets are missing.
    """
    answer = get(View(), "/groups")

    assert 200 == answer.status
    assert "Offsets are missing." in answer.text and 'href="/group?id=a%20group%2F1"' in answer.text


def test_a_group_is_shown_without_members_if_its_coordinator_does_not_describe_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    If the coordinator does not describe a group, the group's page shows the reason in place of the members.
    """

    def fail(reader: ClusterReader, row: GroupRow) -> GroupDetail:
        raise BrokerUnreachable("broker 2 is down")

    monkeypatch.setattr(group_reader, "describe", fail)

    answer = get(View(), "/group?id=a%20group/1")

    assert (200, True) == (answer.status, "The members are missing: broker 2 is down" in answer.text)


def test_lag_is_what_is_committed_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If a partition has no committed offset, its lag is unknown.  If its log ends before the committed offset, the lag is
    0.
    """
    member = MemberRow(member_id="m", instance_id=None, client_id="worker", host="/127.0.0.1", partitions=())
    committed = {TopicPartition("orders", 0): 1_200, TopicPartition("payments", 0): 9_999}
    monkeypatch.setattr(group_reader, "committed", lambda reader, rows: ({GROUP.group_id: committed}, ()))
    monkeypatch.setattr(
        group_reader,
        "describe",
        lambda reader, row: GroupDetail(
            row=row, assignor="range", members=[member], members_by_partition={TopicPartition("new", 0): member}
        ),
    )

    text = get(View(shard(1), shard(2, "payments"), shard(3, "new")), "/group?id=a%20group/1").text

    lags = [
        text.partition(f'id="offset-{topic}-0"')[2].split('<td class="n">')[4].partition("<")[0]
        for topic in ("orders", "payments", "new")
    ]
    assert ["10", "0", "–"] == lags
