"""`tidemill groups` for share groups, against a real broker."""

import json
import time
import uuid
from typing import Any

import pytest
from confluent_kafka import ShareConsumer

from tests.integration.cli.command import new_topic, tidemill
from tests.integration.cli.group_in_use import share_member_of

RECORDS = b'{"value": "a", "timestamp": 1000}\n{"value": "b", "timestamp": 2000}\n{"value": "c", "timestamp": 3000}\n'
RECEIVED_S_MAX = 30.0


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Return a topic with one partition and three records, one second apart."""
    name = new_topic(bootstrap)
    produced = tidemill("produce", name, "--format", "json", stdin=RECORDS, bootstrap=bootstrap)
    assert 0 == produced.exit_code, produced.err
    return name


@pytest.fixture
def group() -> str:
    return f"share-{uuid.uuid4().hex[:12]}"


def reset(bootstrap: str, group: str, *arguments: str) -> dict[str, Any]:
    finished = tidemill("groups", "reset", group, "--json", *arguments, bootstrap=bootstrap)
    assert 0 == finished.exit_code, finished.err
    row: dict[str, Any] = json.loads(finished.out)
    return row


def described(bootstrap: str, group: str) -> dict[str, Any]:
    finished = tidemill("groups", "describe", group, "--json", bootstrap=bootstrap)
    assert 0 == finished.exit_code, finished.err
    row: dict[str, Any] = json.loads(finished.out)
    return row


def starts(row: dict[str, Any]) -> list[tuple[int | None, int, int | None]]:
    return [(it["start_offset"], it["end_offset"], it["lag"]) for it in row["partitions"]]


def received(consumer: ShareConsumer, count: int) -> list[bytes | None]:
    """Receive and accept this number of records."""
    values: list[bytes | None] = []
    deadline = time.monotonic() + RECEIVED_S_MAX
    while len(values) < count:
        assert time.monotonic() < deadline, f"received {values}"
        for message in consumer.poll(0.2):
            assert message.error() is None, message.error()
            consumer.acknowledge(message)
            values.append(message.value())
    assert {None} >= set(consumer.commit_sync(RECEIVED_S_MAX).values())
    return values


def test_a_share_group_is_prepared_read_reset_and_deleted(bootstrap: str, topic: str, group: str) -> None:
    """
    --share creates a missing group.  Its consumers begin at the new offset, and again at the next one.  The group is
    listed with its type, and described with start, lag, members and their assignment.
    """
    arguments = ("--to", "offset:1", "--topic", topic, "--share")
    shown = tidemill("groups", "reset", group, *arguments, bootstrap=bootstrap)
    prepared = reset(bootstrap, group, *arguments, "--execute")
    with share_member_of(bootstrap, group, topic) as consumer:
        first = received(consumer, 2)
        in_use = described(bootstrap, group)
        refused = [
            tidemill("groups", verb, group, *more, "--json", bootstrap=bootstrap)
            for verb, more in (("reset", ("--to", "latest", "--execute")), ("delete", ()))
        ]
    finished = described(bootstrap, group)
    plan = reset(bootstrap, group, "--to", "time:1970-01-01T00:00:02Z")
    unchanged = described(bootstrap, group)
    reset(bootstrap, group, "--to", "earliest", "--execute")
    again = described(bootstrap, group)
    with share_member_of(bootstrap, group, topic) as consumer:
        second = received(consumer, 3)
    listed = [json.loads(line) for line in tidemill("groups", "list", "--json", bootstrap=bootstrap).out.splitlines()]
    table = tidemill("groups", "describe", group, bootstrap=bootstrap)
    deleted = tidemill("groups", "delete", group, "--json", bootstrap=bootstrap)
    gone = tidemill("groups", "describe", group, "--json", bootstrap=bootstrap)

    assert f"share group {group!r} does not exist and would be created" in shown.err
    assert (False, None, 1) == (
        prepared["exists"],
        prepared["partitions"][0]["current"],
        prepared["partitions"][0]["new"],
    )
    assert ([b"b", b"c"], [b"a", b"b", b"c"]) == (first, second)
    (member,) = in_use["members"]
    assert ("Stable", "Share", "simple") == (in_use["state"], in_use["type"], in_use["assignor"])
    assert ("sharer", [{"topic": topic, "partition": 0}]) == (member["client_id"], member["partitions"])
    assert ["NON_EMPTY_GROUP"] * 2 == [json.loads(it.err)["error"] for it in refused]
    assert [(3, 3, 0)] == starts(finished) == starts(unchanged)
    assert (True, 3, 1, -2) == (plan["exists"], *(plan["partitions"][0][it] for it in ("current", "new", "change")))
    assert ([(0, 3, 3)], 3) == (starts(again), again["total_lag"])
    assert [{"group": group, "state": "Empty", "type": "Share"}] == [it for it in listed if it["group"] == group]
    assert f"topic\tpartition\tstart_offset\tend_offset\tlag\n{topic}\t0\t3\t3\t0\n" in table.out
    assert {"group": group, "deleted": True} == json.loads(deleted.out)
    assert "GROUP_ID_NOT_FOUND" == json.loads(gone.err)["error"]
