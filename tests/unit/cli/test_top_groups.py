"""How `tidemill top` reads the groups of brokers that are old, that do not respond, or between which groups move."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.unit.client.fake_cluster import APIS, Disconnect, FakeCluster, at_versions
from tidemill.cli import top_groups
from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.top_groups import GroupReader, GroupSample
from tidemill.model import errors
from tidemill.wire.messages import list_groups, offset_fetch
from tidemill.wire.schema import Api, Message

Listed = list_groups.Response.Group


class Brokers:
    """Two brokers; a group is listed by one of them, and its offsets are returned by its coordinator."""

    def __init__(self) -> None:
        self.listed: dict[int, list[Listed]] = {1: [], 2: []}
        self.coordinator: dict[str, int] = {}
        self.silent: int | None = None
        self.refusing: int | None = None

    def hook(self, broker_id: int, name: str, request: Message) -> Message | None:
        if broker_id == self.silent and name != "metadata":
            raise Disconnect
        if isinstance(request, list_groups.Request):
            code = errors.COORDINATOR_NOT_AVAILABLE if broker_id == self.refusing else errors.NONE
            return list_groups.Response(error_code=code, groups=self.listed[broker_id])
        if isinstance(request, offset_fetch.Request):
            if request.groups:
                group = offset_fetch.Response.Group
                answers = [(it.group_id, *self._answer(broker_id, it.group_id)) for it in request.groups]
                return offset_fetch.Response(
                    groups=[group(group_id=name, error_code=code, topics=topics(group.Topic, offset))
                            for name, code, offset in answers]
                )  # fmt: skip
            code, offset = self._answer(broker_id, request.group_id)
            return offset_fetch.Response(error_code=code, topics=topics(offset_fetch.Response.Topic, offset))
        return None

    def _answer(self, broker_id: int, group: str) -> tuple[int, int | None]:
        moved = self.coordinator[group] != broker_id
        return (errors.NOT_COORDINATOR, None) if moved else (errors.NONE, len(group))


def topics(topic: type, offset: int | None) -> list[Message]:
    if offset is None:
        return []
    partitions = [
        topic.Partition(partition_index=0, committed_offset=offset, error_code=errors.NONE),  # type: ignore[attr-defined]
        topic.Partition(partition_index=1, committed_offset=-1, error_code=errors.NONE),  # type: ignore[attr-defined]
    ]
    return [topic(name="t", partitions=partitions)]


@contextmanager
def reader(brokers: Brokers, apis: dict[int, Api] = APIS) -> Iterator[GroupReader]:
    with FakeCluster(broker_count=2, apis={**apis, list_groups.API.key: list_groups.API}) as cluster:
        cluster.hook = brokers.hook
        addresses = ",".join(f"{host}:{port}" for host, port in cluster.settings().bootstrap)
        with closing(GroupReader(addresses)) as groups:
            yield groups


def listed(name: str, protocol_type: str = "consumer", state: str = "Stable") -> Listed:
    return Listed(group_id=name, protocol_type=protocol_type, group_state=state, group_type="classic")


def test_a_group_that_moves_has_no_offsets_until_its_new_coordinator_lists_it() -> None:
    """
    NOT_COORDINATOR leaves out the offsets once: the next sample asks the broker that lists the group then.
    """
    brokers = Brokers()
    brokers.listed = {1: [listed("bb"), listed("a")], 2: []}
    brokers.coordinator = {"a": 1, "bb": 2}
    notes: list[str] = []
    with reader(brokers) as groups:
        during = groups.read(notes)
        brokers.listed = {1: [listed("a")], 2: [listed("bb", state="Empty")]}
        after = groups.read(notes)

    assert [
        ("a", GroupSample(state="Stable", committed={("t", 0): 1})),
        ("bb", GroupSample(state="Stable", committed={})),
    ] == [*during.items()]
    assert GroupSample(state="Empty", committed={("t", 0): 2}) == after["bb"]
    assert [] == notes


def test_share_groups_are_left_out() -> None:
    """They have no committed offsets.  A group that only commits has no protocol type."""
    brokers = Brokers()
    brokers.listed[1] = [listed("s", "share"), listed("a", ""), listed("old", state="")]
    brokers.coordinator = {"a": 1, "old": 1}

    with reader(brokers) as groups:
        found = groups.read([])

    assert {"a": "Stable", "old": "Unknown"} == {name: sample.state for name, sample in found.items()}


def test_an_old_broker_is_asked_for_one_group_at_a_time() -> None:
    """Before Kafka 3.0, OffsetFetch takes one group."""
    brokers = Brokers()
    brokers.listed[2] = [listed("a"), listed("bb")]
    brokers.coordinator = {"a": 2, "bb": 2}

    with reader(brokers, at_versions(offset_fetch=7)) as groups:
        found = groups.read([])

    assert {"a": {("t", 0): 1}, "bb": {("t", 0): 2}} == {name: sample.committed for name, sample in found.items()}


@pytest.mark.parametrize("failing", ["silent", "refusing"])
def test_a_broker_that_does_not_list_its_groups_is_a_note(failing: str) -> None:
    """The groups of the other brokers are read."""
    brokers = Brokers()
    brokers.listed[1] = [listed("a")]
    brokers.coordinator = {"a": 1}
    setattr(brokers, failing, 2)
    notes: list[str] = []

    with reader(brokers) as groups:
        found = groups.read(notes)

    assert ["a"] == [*found]
    assert ["a broker does not respond, so the list of groups is incomplete"] == notes


def test_only_the_first_groups_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A note says how many there are."""
    monkeypatch.setattr(top_groups, "GROUPS_MAX", 1)
    brokers = Brokers()
    brokers.listed[1] = [listed("bb"), listed("a")]
    brokers.coordinator = {"a": 1}
    notes: list[str] = []

    with reader(brokers) as groups:
        found = groups.read(notes)

    assert ["a"] == [*found]
    assert ["there are 2 groups; only the first 1 by name are read"] == notes


def test_a_cluster_that_does_not_respond_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the exit code of a missing broker."""
    monkeypatch.setattr(top_groups, "ANSWER_TIMEOUT_MS", 100)

    with closing(GroupReader("127.0.0.1:1")) as groups, pytest.raises(Failed) as caught:
        groups.read([])

    assert ExitCode.NO_BROKER == caught.value.exit_code
