"""`tidemill topics` against a real broker."""

import json
import re
import uuid

import pytest

from tests.integration.cli.command import new_topic, tidemill
from tests.integration.cli.terminal import on_terminal


def test_a_created_topic_is_listed(bootstrap: str) -> None:
    """
    With --json, the list has one JSON object per line and topic, with the fields that scripts rely on.
    """
    name = new_topic(bootstrap, partitions=3)

    listed = tidemill("topics", "list", "--json", bootstrap=bootstrap)

    (row,) = [row for row in map(json.loads, listed.out.splitlines()) if row["topic"] == name]
    topic_id = row.pop("topic_id")
    assert {"topic": name, "partitions": 3, "replication_factor": 1, "internal": False} == row
    assert 22 == len(topic_id) and not set(topic_id) & set("+/=")


def test_internal_topics_are_listed_with_all(bootstrap: str) -> None:
    """
    `topics list` shows the topics that users have created; --all adds internal topics.
    """
    name = new_topic(bootstrap)
    tidemill("consume", name, "--group", f"{name}-group", bootstrap=bootstrap)

    listed = tidemill("topics", "list", bootstrap=bootstrap).out
    every = tidemill("topics", "list", "--all", bootstrap=bootstrap).out

    assert "topic\ttopic_id\tpartitions\treplication_factor" == listed.splitlines()[0]
    assert name in listed and "__consumer_offsets" not in listed
    assert [line.split("\t")[-1] for line in every.splitlines() if line.startswith(f"{name}\t")] == ["no"]
    assert [line.split("\t")[-1] for line in every.splitlines() if line.startswith("__consumer_offsets\t")] == ["yes"]


def test_a_description_has_configurations_and_offsets(bootstrap: str) -> None:
    """
    A topic's description contains the configurations that differ from the defaults, and the replicas and offsets of
    each partition.
    """
    name = new_topic(bootstrap, partitions=2)
    tidemill("topics", "alter", name, "--config", "retention.ms=-1", bootstrap=bootstrap)
    tidemill("produce", name, "--key-separator", ":", stdin=b"a:1\na:2\n", bootstrap=bootstrap)

    described = tidemill("topics", "describe", name, "--json", bootstrap=bootstrap)

    row = json.loads(described.out)
    every = json.loads(tidemill("topics", "describe", name, "--all", "--json", bootstrap=bootstrap).out)
    assert "-1" == row["configs"]["retention.ms"] and "cleanup.policy" not in row["configs"]
    assert ("-1", "delete") == (every["configs"]["retention.ms"], every["configs"]["cleanup.policy"])
    assert "log" == row["kind"]
    assert [0, 1] == [partition["partition"] for partition in row["partitions"]]
    assert [0, 0] == [partition["log_start"] for partition in row["partitions"]]
    assert [0, 2] == sorted(partition["end_offset"] for partition in row["partitions"])
    assert [([1], [1])] * 2 == [(partition["replicas"], partition["in_sync"]) for partition in row["partitions"]]
    assert {"partition", "leader", "replicas", "in_sync", "epoch", "log_start", "end_offset"} == {*row["partitions"][0]}


def test_partitions_can_be_added(bootstrap: str) -> None:
    """
    Partitions can be added to a topic, but never removed.
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

    deleted = tidemill("topics", "delete", name, bootstrap=bootstrap)  # does not ask, because stdin is not a terminal

    described = tidemill("topics", "describe", name, "--json", bootstrap=bootstrap)
    assert (0, 1) == (deleted.exit_code, described.exit_code)
    assert "UNKNOWN_TOPIC_OR_PARTITION" == json.loads(described.err)["error"]


def test_no_topic_is_deleted_if_one_is_missing(bootstrap: str) -> None:
    """
    A misspelt name is found before anything is deleted.
    """
    name = new_topic(bootstrap)

    deleted = tidemill("topics", "delete", name, f"{name}-2", bootstrap=bootstrap)

    kept = tidemill("topics", "describe", name, bootstrap=bootstrap)
    assert (1, 0) == (deleted.exit_code, kept.exit_code)


def test_deleting_asks_on_a_terminal(bootstrap: str) -> None:
    """
    On a terminal, a topic is deleted only after the user answers yes, or without a question if --yes is given.
    """
    name, other = new_topic(bootstrap), new_topic(bootstrap)

    kept = on_terminal("topics", "delete", name, bootstrap=bootstrap, answer="")
    described = tidemill("topics", "describe", name, bootstrap=bootstrap)
    deleted = on_terminal("topics", "delete", name, bootstrap=bootstrap, answer="y")
    sure = on_terminal("topics", "delete", other, "--yes", bootstrap=bootstrap)

    assert (1, 0, 0, 0) == (kept.exit_code, described.exit_code, deleted.exit_code, sure.exit_code)
    assert "nothing was deleted" in kept.out
    assert f"deleted {other}\n" == sure.out


def test_a_refusal_by_the_broker_is_reported_with_the_fix(bootstrap: str) -> None:
    """
    The message contains the broker's error, the setting that caused it, and the fix.
    """
    name = new_topic(bootstrap)

    again = tidemill("topics", "create", name, bootstrap=bootstrap)
    wrong = tidemill("topics", "create", f"{name}-2", "--config", "retention.ms=soon", bootstrap=bootstrap)

    assert 1 == again.exit_code and "TOPIC_ALREADY_EXISTS" in again.err and "topics alter" in again.err
    assert 1 == wrong.exit_code and "retention.ms" in wrong.err and "soon" in wrong.err


def test_a_topic_has_the_kind_that_is_asked_for(bootstrap: str) -> None:
    """
    `--kind` and `--config tidemill.kind` are two ways to say the same; the kind cannot change.
    """
    name = f"cli-{uuid.uuid4().hex[:12]}"

    made = tidemill("topics", "create", f"{name}-1", "--kind", "timer", bootstrap=bootstrap)
    same = tidemill("topics", "create", f"{name}-2", "--config", "tidemill.kind=timer", bootstrap=bootstrap)
    log = tidemill("topics", "create", f"{name}-3", "--kind", "log", bootstrap=bootstrap)
    changed = tidemill("topics", "alter", f"{name}-1", "--config", "tidemill.kind=log", bootstrap=bootstrap)
    removed = tidemill("topics", "alter", f"{name}-1", "--delete-config", "tidemill.kind", bootstrap=bootstrap)
    kept = tidemill("topics", "alter", f"{name}-1", "--config", "tidemill.kind=timer", bootstrap=bootstrap)

    names = [f"{name}-{number}" for number in (1, 2, 3)]
    described = tidemill("topics", "describe", *names, "--json", bootstrap=bootstrap).out
    text = tidemill("topics", "describe", names[0], bootstrap=bootstrap).out
    assert [0, 0, 0, 1, 1, 0] == [it.exit_code for it in (made, same, log, changed, removed, kept)]
    assert ["timer", "timer", "log"] == [json.loads(line)["kind"] for line in described.splitlines()]
    assert re.search(r"^kind\s+timer$", text, re.MULTILINE)
    assert "tidemill.kind=log is refused" in changed.err and "a topic's kind cannot change" in changed.err


@pytest.mark.parametrize(
    ("options", "exit_code", "says"),
    [
        (("--kind", "keyed"), 2, "'keyed' is not one of 'log', 'timer'"),
        (("--kind", "timer", "--config", "tidemill.kind=log"), 2, "--config tidemill.kind=log"),
        (("--config", "tidemill.kind=keyed"), 1, "keyed topics are not implemented yet; use log or timer"),
        (("--kind", "timer", "--config", "message.timestamp.type=CreateTime"), 1, "use LogAppendTime"),
        (("--kind", "log", "--config", "tidemill.max.delay.ms=1000"), 1, "create a topic with tidemill.kind=timer"),
    ],
)
def test_what_does_not_fit_a_kind_is_refused(
    bootstrap: str, options: tuple[str, ...], exit_code: int, says: str
) -> None:
    """
    A kind that does not exist, and a configuration that does not fit the kind, are errors that say what to do.
    """
    refused = tidemill("topics", "create", f"cli-{uuid.uuid4().hex[:12]}", *options, bootstrap=bootstrap)

    assert exit_code == refused.exit_code
    assert says in " ".join(refused.err.split())
