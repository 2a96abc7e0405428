"""How `tidemill groups` talks about share groups to brokers of different ages, which may refuse."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.client.fake_cluster import APIS, FakeCluster
from tidemill.cli.coordinator_requests import CoordinatorRequests
from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.share_group_admin import ShareGroupAdmin
from tidemill.model import errors
from tidemill.wire.messages import (
    alter_share_group_offsets,
    describe_share_group_offsets,
    list_groups,
    share_group_describe,
)
from tidemill.wire.schema import Message

NEW = (list_groups.API, share_group_describe.API, describe_share_group_offsets.API, alter_share_group_offsets.API)
Group = share_group_describe.Response.Group
Answers = dict[str, Callable[[int], Message]]


@contextmanager
def admin(answers: Answers, *, broker_count: int = 1, is_old: bool = False) -> Iterator[ShareGroupAdmin]:
    """Yield an admin of brokers that answer each request of a name by a function of the broker id."""
    apis = APIS if is_old else {**APIS, **{api.key: api for api in NEW}}
    with FakeCluster(broker_count=broker_count, apis=apis) as cluster:

        def hook(broker_id: int, name: str, request: Message) -> Message | None:
            return answers[name](broker_id) if name in answers else None

        cluster.hook = hook
        addresses = ",".join(f"{host}:{port}" for host, port in cluster.settings().bootstrap)
        topics = SimpleNamespace(end_offsets=lambda partitions: dict.fromkeys(partitions, 10))
        with closing(CoordinatorRequests(addresses)) as requests:
            yield ShareGroupAdmin(requests, topics)  # type: ignore[arg-type]


def described(code: int = errors.NONE, *members: Group.Member, state: str = "Empty") -> Answers:
    group = Group(
        error_code=code,
        group_id="g",
        group_state=state,
        group_epoch=1,
        assignment_epoch=1,
        assignor_name="simple",
        members=members,
    )
    return {"share_group_describe": lambda _: share_group_describe.Response(groups=[group])}


def offsets(*starts: tuple[int, int]) -> Answers:
    group = describe_share_group_offsets.Response.Group
    topic = group.Topic(
        topic_name="t",
        topic_id=bytes(16),
        partitions=[
            group.Topic.Partition(
                partition_index=number, start_offset=start, leader_epoch=1, lag=lag, error_code=errors.NONE
            )
            for number, (start, lag) in enumerate(starts)
        ],
    )
    response = describe_share_group_offsets.Response(groups=[group(group_id="g", topics=[topic], error_code=0)])
    return {"describe_share_group_offsets": lambda _: response}


def test_the_share_groups_of_all_brokers_are_listed() -> None:
    """Each broker lists the groups that it coordinates."""

    def listed(broker_id: int) -> Message:
        row = list_groups.Response.Group(
            group_id=f"g{broker_id}", protocol_type="share", group_state="Empty", group_type="share"
        )
        return list_groups.Response(error_code=errors.NONE, groups=[row])

    with admin({"list_groups": listed}, broker_count=2) as share_groups:
        rows = share_groups.rows()

    assert [{"group": f"g{it}", "state": "Empty", "type": "Share"} for it in (1, 2)] == rows


def test_a_description_has_start_and_lag() -> None:
    """A partition that the group has not read has no start and no lag; the total counts only the others."""
    with admin(described() | offsets((4, 3), (-1, -1))) as share_groups:
        row: Any = share_groups.description_of("g")

    assert [("t", 0, 4, 10, 3), ("t", 1, None, 10, None)] == [
        (it["topic"], it["partition"], it["start_offset"], it["end_offset"], it["lag"]) for it in row["partitions"]
    ]
    assert ("Share", "simple", 3, 1) == (row["type"], row["assignor"], row["total_lag"], row["coordinator"]["id"])


def test_a_group_of_another_type_is_no_share_group() -> None:
    """The broker answers GROUP_ID_NOT_FOUND, for a missing group too."""
    with admin(described(errors.GROUP_ID_NOT_FOUND, state="Dead")) as share_groups:
        assert share_groups.described("g") is None


def test_an_old_broker_has_no_share_groups() -> None:
    """A broker without the requests lists and describes no share group, and cannot create one."""
    with admin({}, is_old=True) as share_groups:
        assert share_groups.described("g") is None
        with pytest.raises(Failed, match="cannot set the offsets of share groups") as caught:
            share_groups.alter("g", {("t", 0): 1})

    assert "UNSUPPORTED_VERSION" == caught.value.name


@pytest.mark.parametrize(
    ("whole", "single", "name", "about"),
    [
        (errors.NON_EMPTY_GROUP, errors.NONE, "NON_EMPTY_GROUP", "group 'g': "),
        (errors.NONE, errors.NON_EMPTY_GROUP, "NON_EMPTY_GROUP", "group 'g', t-0: "),
        (errors.NONE, errors.LEADER_NOT_AVAILABLE, "LEADER_NOT_AVAILABLE", "group 'g', t-0: "),
    ],
)
def test_a_refused_reset_names_what_was_refused(whole: int, single: int, name: str, about: str) -> None:
    """The error names the group, and the partition if only that was refused."""
    topic = alter_share_group_offsets.Response.Topic
    partition = topic.Partition(partition_index=0, error_code=single, error_message="no")
    response = alter_share_group_offsets.Response(
        error_code=whole,
        error_message="no",
        responses=[topic(topic_name="t", topic_id=bytes(16), partitions=[partition])],
    )

    with (
        admin({"alter_share_group_offsets": lambda _: response}) as share_groups,
        pytest.raises(Failed) as caught,
    ):
        share_groups.alter("g", {("t", 0): 1})

    assert (name, True) == (caught.value.name, caught.value.message.startswith(about))
    assert ExitCode.FAILED == caught.value.exit_code
