"""`tidemill groups` against a real broker."""

import json
import uuid
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.cli.command import new_topic, tidemill
from tests.integration.cli.group_in_use import member_of

RECORDS = b'{"value": "a", "timestamp": 1000}\n{"value": "b", "timestamp": 2000}\n{"value": "c", "timestamp": 3000}\n'


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """Return a topic with one partition and three records, one second apart."""
    name = new_topic(bootstrap)
    produced = tidemill("produce", name, "--format", "json", stdin=RECORDS, bootstrap=bootstrap)
    assert 0 == produced.exit_code, produced.err
    return name


@pytest.fixture(scope="module")
def wide_topic(bootstrap: str) -> str:
    """Return a topic with three partitions and no records."""
    return new_topic(bootstrap, partitions=3)


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


def committed_group(admin: AdminClient, *offsets: tuple[str, int, int]) -> str:
    """Create a group without members and with these committed offsets, and return its name."""
    group = new_group()
    changes = [TopicPartition(*offset) for offset in offsets]
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, changes)])[group].result(timeout=60)
    return group


def committed(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    """Return the committed offsets of the group."""
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {(it.topic, it.partition): it.offset for it in futures[group].result(timeout=60).topic_partitions}


def described(bootstrap: str, group: str) -> dict[str, Any]:
    finished = tidemill("groups", "describe", group, "--json", bootstrap=bootstrap)
    assert 0 == finished.exit_code, finished.err
    row: dict[str, Any] = json.loads(finished.out)
    return row


def test_a_description_has_the_lag(bootstrap: str, admin: AdminClient, topic: str, wide_topic: str) -> None:
    """
    The lag of a partition is its end offset minus the committed offset; the group's lag is the sum.
    """
    group = committed_group(admin, (topic, 0, 1), (wide_topic, 2, 0))

    row = described(bootstrap, group)

    listed = [json.loads(line) for line in tidemill("groups", "list", "--json", bootstrap=bootstrap).out.splitlines()]
    assert ("Empty", [], None, 2) == (row["state"], row["members"], row["assignor"], row["total_lag"])
    assert {topic: (0, 1, 3, 2, None), wide_topic: (2, 0, 0, 0, None)} == {
        it["topic"]: (it["partition"], it["committed"], it["end_offset"], it["lag"], it["owner"])
        for it in row["partitions"]
    }
    assert {"id", "host", "port"} == row["coordinator"].keys()
    assert [{"group": group, "state": "Empty", "type": "Classic"}] == [it for it in listed if it["group"] == group]


def test_a_group_in_use_shows_owners_and_is_not_changed(bootstrap: str, topic: str) -> None:
    """
    A member is shown with its partitions, including those without a committed offset.  Reset and delete refuse the
    group.
    """
    group = new_group()

    with member_of(bootstrap, group, topic, client_id="reader"):
        row = described(bootstrap, group)
        reset = tidemill("groups", "reset", group, "--to", "latest", "--topic", topic, "--execute", bootstrap=bootstrap)
        deleted = tidemill("groups", "delete", group, "--json", bootstrap=bootstrap)

    (member,) = row["members"]
    place = {"topic": topic, "partition": 0}
    assert ("Stable", "range") == (row["state"], row["assignor"])
    assert ("reader", [place]) == (member["client_id"], member["partitions"])
    assert member["host"]
    assert [place | {"committed": None, "end_offset": 3, "lag": None, "owner": member["member_id"]}] == row[
        "partitions"
    ]
    assert (1, 1) == (reset.exit_code, deleted.exit_code)
    assert "NON_EMPTY_GROUP" in reset.err and "1 active member" in reset.err and "stop its consumers" in reset.err
    assert "NON_EMPTY_GROUP" == json.loads(deleted.err)["error"]


@pytest.mark.parametrize(
    ("to", "new"),
    [("offset:9", 3), ("time:1970-01-01T00:00:02Z", 1), ("-10m", 3), ("-99999d", 0)],
)
def test_a_reset_first_shows_and_then_changes_offsets(
    bootstrap: str, admin: AdminClient, topic: str, to: str, new: int
) -> None:
    """
    Without --execute, nothing changes.  An offset outside the log becomes the nearest offset in it, and a timestamp
    after the last record becomes the end offset.
    """
    group = committed_group(admin, (topic, 0, 1))
    arguments = ("groups", "reset", group, "--to", to, "--json")

    shown = json.loads(tidemill(*arguments, bootstrap=bootstrap).out)
    before = committed(admin, group)
    executed = json.loads(tidemill(*arguments, "--execute", bootstrap=bootstrap).out)

    (row,) = shown["partitions"]
    assert (1, new, new - 1, to == "offset:9") == (row["current"], row["new"], row["change"], row["clamped"])
    assert (False, True) == (shown["executed"], executed["executed"])
    assert shown["partitions"] == executed["partitions"]
    assert ({(topic, 0): 1}, {(topic, 0): new}) == (before, committed(admin, group))


def test_a_reset_is_limited_to_topics_and_partitions(
    bootstrap: str, admin: AdminClient, topic: str, wide_topic: str
) -> None:
    """
    --topic selects all partitions of a topic, and --partition selects some of them; other offsets do not change.
    """
    group = committed_group(admin, (topic, 0, 1), (wide_topic, 0, 0))

    def reset(*more: str) -> list[tuple[str, int]]:
        told = tidemill("groups", "reset", group, "--to", "latest", "--json", *more, bootstrap=bootstrap)
        return [(it["topic"], it["partition"]) for it in json.loads(told.out)["partitions"]]

    assert {(topic, 0), (wide_topic, 0)} == {*reset()}
    assert [(wide_topic, 0), (wide_topic, 1), (wide_topic, 2)] == reset("--topic", wide_topic)
    assert [(wide_topic, 0), (wide_topic, 2)] == reset("--topic", wide_topic, "--partition", "2", "--partition", "0")
    assert [(topic, 0)] == reset("--topic", topic, "--execute")
    assert {(topic, 0): 3, (wide_topic, 0): 0} == committed(admin, group)


def test_a_reset_of_what_does_not_exist_is_refused(
    bootstrap: str, admin: AdminClient, topic: str, wide_topic: str
) -> None:
    """
    The error names what does not exist; --partition without --topic is ambiguous if the group reads several topics.
    """
    group = committed_group(admin, (topic, 0, 0), (wide_topic, 0, 0))

    def refused(name: str, *more: str) -> tuple[int, str | None]:
        finished = tidemill("groups", "reset", name, "--to", "latest", "--json", *more, bootstrap=bootstrap)
        return finished.exit_code, json.loads(finished.err)["error"]

    assert (1, "UNKNOWN_TOPIC_OR_PARTITION") == refused(group, "--topic", f"{topic}-2")
    assert (1, "UNKNOWN_PARTITION") == refused(group, "--topic", topic, "--partition", "7")
    assert (2, None) == refused(group, "--partition", "0")
    assert (2, None) == refused(f"{group}-2")


def test_a_reset_can_prepare_a_group(bootstrap: str, topic: str) -> None:
    """
    A reset with --topic creates the group, so that its consumers start there; the dry run says so.
    """
    arguments = ("groups", "reset", new_group(), "--to", "offset:2", "--topic", topic)

    shown = tidemill(*arguments, bootstrap=bootstrap)
    tidemill(*arguments, "--execute", bootstrap=bootstrap)
    consumed = tidemill("consume", topic, "--group", arguments[2], bootstrap=bootstrap)

    assert f"topic\tpartition\tcurrent\tnew\tchange\n{topic}\t0\t-\t2\t-\n" == shown.out
    assert "nothing was changed; add --execute" in shown.err and "would be created" in shown.err
    assert "c\n" == consumed.out


def test_a_deleted_group_no_longer_exists(bootstrap: str, admin: AdminClient, topic: str) -> None:
    """
    A deleted group has no offsets.  If one of several groups does not exist, none is deleted.
    """
    group, kept = committed_group(admin, (topic, 0, 0)), committed_group(admin, (topic, 0, 0))

    deleted = tidemill("groups", "delete", group, "--json", bootstrap=bootstrap)
    again = tidemill("groups", "delete", kept, group, "--json", bootstrap=bootstrap)

    gone = tidemill("groups", "describe", group, "--json", bootstrap=bootstrap)
    assert {"group": group, "deleted": True} == json.loads(deleted.out)
    assert ["GROUP_ID_NOT_FOUND"] * 2 == [json.loads(it.err)["error"] for it in (again, gone)]
    assert {(topic, 0): 0} == committed(admin, kept)
