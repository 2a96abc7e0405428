"""`tidemill topics` against a real broker."""

import json

from tests.integration.cli.command import new_topic, tidemill


def test_a_created_topic_is_listed(bootstrap: str) -> None:
    """
    The list has one JSON object per topic and line, with the fields that scripts rely on.
    """
    name = new_topic(bootstrap, partitions=3)

    listed = tidemill("topics", "list", "--json", bootstrap=bootstrap)

    (row,) = [row for row in map(json.loads, listed.out.splitlines()) if row["topic"] == name]
    topic_id = row.pop("topic_id")
    assert {"topic": name, "partitions": 3, "replication_factor": 1, "internal": False} == row
    assert 22 == len(topic_id) and not set(topic_id) & set("+/=")


def test_a_description_has_configurations_and_offsets(bootstrap: str) -> None:
    """
    A topic's description contains its configuration and the offsets of each partition.
    """
    name = new_topic(bootstrap, partitions=2)
    tidemill("topics", "alter", name, "--config", "retention.ms=-1", bootstrap=bootstrap)
    tidemill("produce", name, "--key-separator", ":", stdin=b"a:1\na:2\n", bootstrap=bootstrap)

    described = tidemill("topics", "describe", name, "--json", bootstrap=bootstrap)

    row = json.loads(described.out)
    assert "-1" == row["configs"]["retention.ms"]
    assert [0, 1] == [partition["partition"] for partition in row["partitions"]]
    assert [0, 0] == [partition["log_start"] for partition in row["partitions"]]
    assert [0, 2] == sorted(partition["end_offset"] for partition in row["partitions"])
    assert {"partition", "leader", "epoch", "log_start", "end_offset"} == row["partitions"][0].keys()


def test_partitions_can_be_added(bootstrap: str) -> None:
    """
    Partitions can be added to a topic, and never removed.
    """
    name = new_topic(bootstrap)

    grown = tidemill("topics", "alter", name, "--partitions", "4", bootstrap=bootstrap)
    shrunk = tidemill("topics", "alter", name, "--partitions", "2", bootstrap=bootstrap)

    described = json.loads(tidemill("topics", "describe", name, "--json", bootstrap=bootstrap).out)
    assert (0, 1, 4) == (grown.exit_code, shrunk.exit_code, len(described["partitions"]))


def test_a_deleted_topic_no_longer_exists(bootstrap: str) -> None:
    """
    Describing a deleted topic fails with Kafka's error name.
    """
    name = new_topic(bootstrap)

    deleted = tidemill("topics", "delete", name, bootstrap=bootstrap)

    described = tidemill("topics", "describe", name, "--json", bootstrap=bootstrap)
    assert (0, 1) == (deleted.exit_code, described.exit_code)
    assert "UNKNOWN_TOPIC_OR_PARTITION" == json.loads(described.err)["error"]


def test_a_refusal_by_the_broker_is_reported_with_the_fix(bootstrap: str) -> None:
    """
    The message has the broker's error, the setting that caused it, and the fix.
    """
    name = new_topic(bootstrap)

    again = tidemill("topics", "create", name, bootstrap=bootstrap)
    wrong = tidemill("topics", "create", f"{name}-2", "--config", "retention.ms=soon", bootstrap=bootstrap)

    assert 1 == again.exit_code and "TOPIC_ALREADY_EXISTS" in again.err and "topics alter" in again.err
    assert 1 == wrong.exit_code and "retention.ms" in wrong.err and "soon" in wrong.err
