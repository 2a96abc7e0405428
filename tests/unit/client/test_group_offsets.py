"""The offsets of a group are read and committed without joining the group, even while its coordinator moves."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.client.fake_cluster import FakeCluster, Group
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import ClientError
from tidemill.client.group_offsets import GroupHasMembers, GroupOffsets
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.wire.messages import offset_commit, offset_fetch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@contextmanager
def group(cluster: FakeCluster) -> Iterator[GroupOffsets]:
    metadata = ClusterMetadata(cluster.settings())
    try:
        metadata.refresh({"t"})
        yield GroupOffsets(metadata, "g")
    finally:
        metadata.close()


def test_committed_offsets_are_read_again():
    """
    Committed offsets can be read back; a partition without a commit is left out.
    """
    with FakeCluster() as cluster, group(cluster) as offsets:
        offsets.commit({T0: 7})

        assert {T0: 7} == offsets.committed([T0, T1])


def test_a_coordinator_that_moved_is_found():
    """
    After NOT_COORDINATOR, the client finds the new coordinator and repeats the request there.
    """
    with FakeCluster(broker_count=2) as cluster, group(cluster) as offsets:
        offsets.commit({T0: 7})
        cluster.groups["g"].coordinator = 2
        offsets.commit({T0: 8})

        assert 8 == cluster.groups["g"].offsets["t", 0]
        assert [1, 1, 2] == [broker for broker, name, *_ in cluster.requests if name == "offset_commit"]


def test_a_group_with_members_is_refused_in_one_sentence():
    """
    A group with live members is refused, both when the group is checked and when offsets are committed.
    """
    with FakeCluster() as cluster, group(cluster) as offsets:
        cluster.groups["g"] = Group(member_count=2)
        with pytest.raises(GroupHasMembers, match=r"group 'g' has 2 live members, .*: stop them, or choose a group"):
            offsets.refuse_members()
        with pytest.raises(GroupHasMembers, match="group 'g' has live members"):
            offsets.commit({T0: 7})
        cluster.groups["g"].member_count = 0
        offsets.refuse_members()


def test_a_refusal_names_the_group_and_the_error():
    """
    An error that is not retriable is raised immediately, with the group and the broker's error code.
    """
    with FakeCluster() as cluster, group(cluster) as offsets:
        cluster.hook = lambda broker_id, name, request: (
            offset_fetch.Response(error_code=errors.GROUP_AUTHORIZATION_FAILED)
            if isinstance(request, offset_fetch.Request)
            else None
        )
        with pytest.raises(ClientError, match="group 'g' does not return its offsets: GROUP_AUTHORIZATION_FAILED"):
            offsets.committed([T0])


def test_a_simple_consumer_commits_without_member_and_generation():
    """
    The commit specifies neither a member nor a generation, like the commit of a simple consumer.
    """
    with FakeCluster() as cluster, group(cluster) as offsets:
        offsets.commit({T0: 7})
        (request,) = [request for *_, request in cluster.requests if isinstance(request, offset_commit.Request)]

    assert ("g", -1, "") == (request.group_id, request.generation_id_or_member_epoch, request.member_id)
