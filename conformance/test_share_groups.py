"""Kafka's own commands for share groups, with one broker, and with three whose leaders move.

TIDEMILL_TEST_BOOTSTRAP selects another broker; the output against Apache Kafka is the same.
"""

import re
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass

import pytest
from confluent_kafka import ShareConsumer

from conformance.kafka_tools import KafkaTools
from tests.integration.clients.client_contract import Stage
from tests.integration.clients.conftest import RunningCluster

GROUPS = ("--entity-type", "groups", "--entity-name")


@dataclass(frozen=True, slots=True)
class Scene:
    tools: KafkaTools
    still: Callable[[], AbstractContextManager[None]]
    """Keeps the leaders where they are, for what may differ while they move: deliveries, and the list of all groups."""

    def consume(self, topic: str, group: str, count: int) -> list[str]:
        wanted = ("--max-messages", str(count), "--timeout-ms", "30000")
        with self.still():
            return sorted(self.tools.run("kafka-console-share-consumer", "--topic", topic, "--group", group, *wanted))

    def share_groups(self, *arguments: str) -> list[list[str]]:
        """Return the cells of each line that the command prints."""
        return [line.split() for line in self.tools.run("kafka-share-groups", *arguments)]

    def offsets(self, group: str) -> list[list[str]]:
        """Return partition, start offset and lag of each partition."""
        head, *rows = self.share_groups("--describe", "--group", group, "--offsets")
        assert ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"] == head
        return [row[2:] for row in rows]

    def lags(self, group: str) -> list[str]:
        """
        Return the lag of each partition.  Use this after a group has read records: Kafka stores a start that has moved
        only with the next change.
        """
        return [row[-1] for row in self.offsets(group)]


@pytest.fixture(params=["one broker", "leaders move"])
def scene(request: pytest.FixtureRequest) -> Scene:
    if request.param == "one broker":
        return Scene(request.getfixturevalue("tools"), nullcontext)
    cluster: RunningCluster = request.getfixturevalue("cluster")
    return Scene(request.getfixturevalue("cluster_tools"), cluster.mover.still)


@pytest.fixture
def topic(scene: Scene) -> str:
    """Create a topic with one partition and the records 0 to 4, and return its name."""
    name = f"shares-{uuid.uuid4().hex[:10]}"
    scene.tools.run("kafka-topics", "--create", "--topic", name, "--partitions", "1")
    scene.tools.run("kafka-console-producer", "--topic", name, stdin="".join(f"{it}\n" for it in range(5)))
    return name


@pytest.fixture
def group(scene: Scene) -> str:
    """Return the name of a new share group that begins at the start of its topics."""
    name = f"group-{uuid.uuid4().hex[:10]}"
    scene.tools.run("kafka-configs", "--alter", *GROUPS, name, "--add-config", "share.auto.offset.reset=earliest")
    return name


def numbered(first: int) -> Sequence[str]:
    return [str(it) for it in range(first, 5)]


def test_a_share_group_is_listed_and_described(scene: Scene, topic: str, group: str) -> None:
    read = scene.consume(topic, group, 5)

    with scene.still():
        listed = scene.share_groups("--list")
        states = scene.share_groups("--list", "--state", "Empty")
        of_all_types = [line.split() for line in scene.tools.run("kafka-groups", "--list", "--share")]
    state = scene.share_groups("--describe", "--group", group, "--state")
    verbose = scene.share_groups("--describe", "--group", group, "--offsets", "--verbose")

    assert numbered(0) == read
    assert ["0"] == scene.lags(group)
    assert [group] in listed
    assert [group, "Empty"] in states
    assert [group, "Share", "share"] in of_all_types
    assert ([group, "Empty", "0"], 5) == ([state[1][0], *state[1][-2:]], len(state[1]))
    assert ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"] == verbose[0]
    assert [group, topic, "0", "0"] == [*verbose[1][:3], verbose[1][5]]
    assert int(verbose[1][3]) >= 0


def test_the_start_offset_is_reset(scene: Scene, topic: str, group: str) -> None:
    """
    A dry run changes nothing.  A reset shows in the next description (KAFKA-20034), and the group reads from there.
    """
    scene.consume(topic, group, 5)
    reset = ("--reset-offsets", "--group", group, "--topic", topic)

    dry = scene.share_groups(*reset, "--to-earliest", "--dry-run")
    unchanged = scene.lags(group)
    executed = scene.share_groups(*reset, "--to-earliest", "--execute")
    back = scene.offsets(group)
    again = scene.consume(topic, group, 5)
    scene.share_groups(*reset, "--to-datetime", "2020-01-01T00:00:00.000", "--execute")
    by_time = scene.offsets(group)
    scene.share_groups("--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--execute")
    forward = scene.offsets(group)

    planned = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], [group, topic, "0", "0"]]
    assert planned == dry == executed
    assert ["0"] == unchanged
    assert [["0", "5", "0"]] == forward
    assert [["0", "0", "5"]] == back == by_time
    assert numbered(0) == again


def test_a_reset_creates_a_missing_group(scene: Scene, topic: str, group: str) -> None:
    reset = ("--reset-offsets", "--group", group, "--topic", topic)
    scene.share_groups(*reset, "--to-latest", "--execute")

    assert [["0", "5", "0"]] == scene.offsets(group)
    with scene.still():
        assert [group] in scene.share_groups("--list")


def test_deleted_offsets_begin_anew(scene: Scene, topic: str, group: str) -> None:
    """
    After the offsets are deleted, the group has none, and a member that subscribes again gets every record again.
    """
    scene.consume(topic, group, 5)
    delete = ("--delete-offsets", "--group", group, "--topic", topic)

    deleted = scene.share_groups(*delete, "--topic", f"{topic}-none")
    left = scene.tools.run("kafka-share-groups", "--describe", "--group", group)
    again = scene.consume(topic, group, 5)

    assert [["TOPIC", "STATUS"], [topic, "Successful"]] == deleted[:2]
    assert [f"{topic}-none", "Error:"] == deleted[2][:2]
    assert [f"Share group '{group}' has no offset information."] == left
    assert numbered(0) == again


def test_a_share_group_is_deleted(scene: Scene, topic: str, group: str) -> None:
    """A group that is created again with the same name begins where a new group begins."""
    scene.consume(topic, group, 5)

    deleted = scene.tools.run("kafka-share-groups", "--delete", "--group", group)
    gone = scene.tools.complaint("kafka-share-groups", "--describe", "--group", group)
    again = scene.consume(topic, group, 5)

    assert [f"Deletion of requested share groups ('{group}') was successful."] == deleted
    assert f"Group {group} not found" in gone
    assert numbered(0) == again


def test_a_group_with_members_is_described_and_kept(scene: Scene, topic: str, group: str) -> None:
    """
    The members of another library are described, with their partitions.  Neither the group nor its offsets can be
    changed while it has members.
    """
    configuration = {
        "bootstrap.servers": scene.tools.bootstrap,
        "group.id": group,
        "client.id": "other",
        "share.acknowledgement.mode": "explicit",
        "log_level": 0,
    }
    held: list[bytes | None] = []
    with closing(ShareConsumer(configuration)) as member:
        member.subscribe([topic])

        def is_held() -> bool:
            held.extend(it.value() for it in member.poll(0.2) if it.error() is None)
            return bool(held)

        with scene.still():
            Stage.until(is_held, "the member receives records")
        members = scene.share_groups("--describe", "--group", group, "--members")
        verbose = scene.tools.run("kafka-share-groups", "--describe", "--group", group, "--members", "--verbose")
        refused = [
            scene.tools.complaint("kafka-share-groups", *arguments)
            for arguments in (
                ("--delete", "--group", group),
                ("--delete-offsets", "--group", group, "--topic", topic),
                ("--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute"),
            )
        ]

    assert [group, "/127.0.0.1", "other", f"{topic}:0"] == [members[1][it] for it in (0, 2, 3, -1)]
    assert re.search(rf"\b{re.escape(topic)}:0\b|{re.escape(topic)}\(0\)", verbose[1])
    assert f"Share group '{group}' is not EMPTY" in refused[0]
    assert "The group is not empty" in refused[1]
    assert f"Share group '{group}' is not empty" in refused[2]


def test_the_configuration_of_a_share_group(scene: Scene, group: str) -> None:
    """A group is configured before it exists; a value beyond the broker's bounds is refused."""
    about = (*GROUPS, group)
    alter = ("--alter", *about, "--add-config")

    scene.tools.run("kafka-configs", *alter, "share.record.lock.duration.ms=20000")
    told = scene.tools.run("kafka-configs", "--describe", *about)
    refused = scene.tools.complaint("kafka-configs", *alter, "share.record.lock.duration.ms=9999999")
    scene.tools.run("kafka-configs", "--alter", *about, "--delete-config", "share.record.lock.duration.ms")
    left = scene.tools.run("kafka-configs", "--describe", *about)

    assert {"share.auto.offset.reset=earliest", "share.record.lock.duration.ms=20000"} == {
        line.split()[0] for line in told[1:]
    }
    assert "InvalidConfigurationException" in refused
    assert ["share.auto.offset.reset=earliest"] == [line.split()[0] for line in left[1:]]


def test_share_groups_are_a_finalized_feature(scene: Scene) -> None:
    told = [line.split() for line in scene.tools.run("kafka-features", "describe")]

    (levels,) = [dict(zip(row[::2], row[1::2], strict=True)) for row in told if row[1] == "share.version"]
    assert ("1", True) == (levels["FinalizedVersionLevel:"], int(levels["SupportedMaxVersion:"]) >= 1)


def test_the_verifiable_share_consumer_accepts_every_record(scene: Scene, topic: str, group: str) -> None:
    wanted = ("--topic", topic, "--group-id", group, "--max-messages", "5")

    with scene.still():
        told = scene.tools.run("kafka-verifiable-share-consumer", *wanted)

    assert any('"name":"records_consumed"' in line for line in told)
    assert ["0"] == scene.lags(group)
