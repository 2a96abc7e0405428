"""`tidemill queue` against a real broker."""

import json
import uuid
from contextlib import closing
from struct import pack_into
from typing import Any

import pytest

from tests.integration.cli.command import Finished, new_topic, tidemill
from tidemill.batches.batch import CRC_START, HEADER_BYTES
from tidemill.batches.builder import build_batch
from tidemill.batches.checksum import crc32c
from tidemill.batches.compression import Codec
from tidemill.batches.records import Record
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import from_keys
from tidemill.model.partition import TopicPartition
from tidemill.wire.messages import produce


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Return a topic with one partition and the records a to d."""
    name = new_topic(bootstrap)
    produced = tidemill("produce", name, stdin=b"a\nb\nc\nd\n", bootstrap=bootstrap)
    assert 0 == produced.exit_code, produced.err
    return name


@pytest.fixture
def group(bootstrap: str) -> str:
    """Return the id of a share group that begins at the start of topics.  It does not exist yet."""
    name = f"queue-{uuid.uuid4().hex[:12]}"
    done = tidemill("configs", "set", "share.auto.offset.reset=earliest", "--group", name, bootstrap=bootstrap)
    assert 0 == done.exit_code, done.err
    return name


class Queue:
    """Runs `tidemill queue COMMAND TOPIC GROUP …`."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._names = (topic, group)

    def run(self, command: str, *arguments: str) -> Finished:
        return tidemill("queue", command, *self._names, *arguments, bootstrap=self._bootstrap)

    def rows(self, command: str, *arguments: str) -> list[dict[str, Any]]:
        finished = self.run(command, "--json", *arguments)
        assert 0 == finished.exit_code, finished.err
        return [json.loads(line) for line in finished.out.splitlines()]

    def counts(self) -> dict[str, Any]:
        (row,) = self.rows("stats")
        names = ("start", "end", "lag", "available", "delayed", "held", "dead_waiting", "expired_unread")
        return {name: row[name] for name in names}

    def ack(self, *arguments: str) -> tuple[int, int, int]:
        (row,) = self.rows("ack", *arguments)
        return row["resolved"], row["finished"], row["held"]


@pytest.fixture
def queue(bootstrap: str, topic: str, group: str) -> Queue:
    return Queue(bootstrap, topic, group)


def offsets(rows: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    return [(row["offset"], row["value"], row["attempt"]) for row in rows]


def test_records_are_received_and_acknowledged(queue: Queue) -> None:
    """
    A consumer holds what it has received until it acknowledges it.  Counts and the age of the oldest record follow.
    """
    got = queue.rows("receive", "--as", "me", "--max", "2", "--wait", "30s")
    assert [(0, "a", 1), (1, "b", 1)] == offsets(got)
    assert all(row["locked_until_ms"] > row["timestamp"] for row in got)
    again = queue.rows("receive", "--as", "me")
    assert offsets(got) == offsets(again)
    assert again[0]["locked_until_ms"] > got[0]["locked_until_ms"]
    assert {"start": 0, "end": 4, "lag": 4, "available": 2, "delayed": 0, "held": 2} == {
        name: count for name, count in queue.counts().items() if name not in ("dead_waiting", "expired_unread")
    }

    assert (1, 0, 0) == queue.ack("--as", "me", "--partition", "0", "--offset", "0")
    assert (0, 1, 0) == queue.ack("--as", "me", "--partition", "0", "--offset", "0"), "repeating is safe"
    assert (1, 0, 0) == queue.ack("--as", "me", "--all", "--release", "--delay", "1h")

    (row,) = queue.rows("stats")
    assert (1, 2, 1, 0) == (row["start"], row["available"], row["delayed"], row["held"])
    assert row["oldest_age_ms"] is not None
    assert row["blocked_by"] is None
    assert [(2, "c", 1), (3, "d", 1)] == offsets(queue.rows("receive", "--as", "me", "--max", "9"))


def test_an_operator_decides_about_the_rest(queue: Queue) -> None:
    """
    Without --as, records that no consumer holds are resolved; the others are reported.
    """
    queue.rows("receive", "--as", "me", "--wait", "30s")

    refused = queue.run("ack", "--partition", "0", "--offset", "0-1", "--reject")

    assert 1 == refused.exit_code
    assert "consumers hold 1; name the consumer with --as" in refused.err
    assert (2, 1, 1) == queue.ack("--all")
    counts = queue.counts()
    assert (0, 1, 1, 0) == (counts["start"], counts["lag"], counts["held"], counts["available"])


def test_peek_acquires_nothing(queue: Queue) -> None:
    """
    Peek shows records from the first one that is not finished.  A group that has not read the topic is an error.
    """
    missing = queue.run("peek")
    assert 1 == missing.exit_code
    assert "has not read topic" in missing.err
    assert "queue receive" in missing.err
    queue.rows("receive", "--as", "me", "--max", "2", "--wait", "30s")
    queue.ack("--as", "me", "--partition", "0", "--offset", "0")

    assert [(1, "b"), (2, "c")] == [(row["offset"], row["value"]) for row in queue.rows("peek", "--max", "2")]
    text = queue.run("peek", "--partition", "0")
    assert "partition\toffset\tkey\tvalue\n0\t1\t-\tb\n0\t2\t-\tc\n0\t3\t-\td\n" == text.out
    assert 1 == queue.counts()["held"]


def test_a_lost_lock_is_reported(queue: Queue) -> None:
    """
    A consumer that does not hold a record gets an error that says so.
    """
    queue.rows("receive", "--as", "other", "--wait", "30s")
    lost = queue.run("ack", "--as", "me", "--partition", "0", "--offset", "0")
    assert 1 == lost.exit_code
    assert "partition 0: 1 record not resolved: 'me' does not hold it (any more)" in lost.err


def test_tables_for_people(queue: Queue, bootstrap: str) -> None:
    """
    Without --json, tables have one line per partition or record.  Nothing to receive is no failure.
    """
    received = queue.run("receive", "--as", "me", "--wait", "30s")
    header, row = received.out.splitlines()
    assert ["partition", "offset", "attempt", "locked until", "key", "value"] == header.split("\t")
    assert ["0", "0", "1", "-", "a"] == [cell for at, cell in enumerate(row.split("\t")) if at != 3]
    header, row = queue.run("stats").out.splitlines()
    assert header.startswith("partition\tstart\tend\tavailable\tdelayed\theld\tdead waiting")
    assert row.startswith("0\t0\t4\t3\t0\t1\t0\t0\t")
    acknowledged = queue.run("ack", "--as", "me", "--all")
    assert "partition\tresolved\tfinished before\theld by others\n0\t1\t0\t0\n" == acknowledged.out
    queue.ack("--all")
    empty = queue.run("receive", "--as", "me")
    assert (0, "") == (empty.exit_code, empty.out)
    assert "no records are available" in empty.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("receive", "t", "g", "--as", ""), "--as is empty"),
        (("receive", "t", "g", "--as", "x", "--wait", "soon"), "--wait 'soon': use a number and a unit"),
        (("ack", "t", "g"), "give either --offset N, with --partition P, or --all"),
        (("ack", "t", "g", "--offset", "5"), "--offset 5 needs --partition P"),
        (("ack", "t", "g", "--partition", "0", "--offset", "9-3"), "--offset '9-3': use an offset"),
        (("ack", "t", "g", "--all", "--renew"), "--renew needs --as NAME"),
        (("ack", "t", "g", "--all", "--reject", "--release"), "exclude each other"),
        (("ack", "t", "g", "--all", "--delay", "1s"), "--delay 1s needs --release"),
        (("ack", "t", "g", "--all", "--release", "--delay", "8d"), "--delay 8d: at most 7d"),
        (("stats", "t", ""), "GROUP is empty"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], message: str) -> None:
    """
    A usage error names the option and the fix, and needs no broker.
    """
    finished = tidemill("queue", *arguments)
    assert 2 == finished.exit_code, finished.err
    assert message in finished.err


def test_refusals_name_the_fix(bootstrap: str, topic: str, group: str) -> None:
    """
    A missing topic or partition is reported with Kafka's name of the error.
    """
    missing = tidemill("queue", "stats", "no-such-topic", group, bootstrap=bootstrap)
    assert 1 == missing.exit_code
    assert "UNKNOWN_TOPIC_OR_PARTITION" in missing.err
    unknown = tidemill("queue", "receive", topic, group, "--as", "x", "--partition", "7", bootstrap=bootstrap)
    assert 1 == unknown.exit_code
    assert "it has no partition 7" in unknown.err


def send_unreadable(bootstrap: str, topic: str) -> None:
    """Produce a compressed batch whose checksum is right, and whose contents cannot be decompressed."""
    batch = build_batch([Record(None, b"x")] * 2, codec=Codec.GZIP)
    batch[HEADER_BYTES] ^= 0xFF
    pack_into(">I", batch, CRC_START - 4, crc32c(memoryview(batch)[CRC_START:]))
    data = produce.Request.Topic.Partition(index=0, records=memoryview(batch))
    request = produce.Request(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[produce.Request.Topic(name=topic, partition_data=[data])],
    )
    with closing(ClusterMetadata(from_keys({"bootstrap.servers": bootstrap}))) as cluster:
        cluster.refresh({topic})
        leader = cluster.leader(TopicPartition(topic, 0))
        answer = cluster.connection_to(leader.broker_id).request(produce.API, request, version=12)
    assert 0 == answer.responses[0].partition_responses[0].error_code


def test_records_that_cannot_be_read_are_named_and_set_aside(bootstrap: str, queue: Queue, topic: str) -> None:
    """
    The commands for an operator say which batch cannot be read and how its records are finished, and the others follow.
    """
    queue.rows("receive", "--as", "me", "--max", "4", "--wait", "30s")
    assert (4, 0, 0) == queue.ack("--as", "me", "--all")
    send_unreadable(bootstrap, topic)
    tidemill("produce", topic, stdin=b"e\n", bootstrap=bootstrap)

    for failed in (queue.run("peek"), queue.run("receive", "--as", "me", "--max", "2", "--wait", "30s")):
        assert 1 == failed.exit_code
        assert "Traceback" not in failed.err
        assert "partition 0: a batch at or after offset 4 cannot be read" in failed.err
        assert "--partition 0 --offset N-M --reject" in failed.err
    assert (2, 0, 0) == queue.ack("--as", "me", "--partition", "0", "--offset", "4-5", "--reject")
    assert [(6, "e", 1)] == offsets(queue.rows("receive", "--as", "me", "--wait", "30s"))


def test_a_consumer_that_is_not_the_active_one_is_told_so(queue: Queue, group: str, bootstrap: str) -> None:
    """
    In an exclusive group, the records are available, but only to another consumer.
    """
    tidemill("configs", "set", "--group", group, "tidemill.share.mode=exclusive", bootstrap=bootstrap)
    queue.rows("receive", "--as", "me", "--wait", "30s")

    other = queue.run("receive", "--as", "other")

    assert (0, "") == (other.exit_code, other.out)
    assert "not to 'other': with tidemill.share.mode=exclusive" in other.err


@pytest.mark.parametrize("order", ["key", "none"])
def test_a_first_receive_gets_a_record_at_once(queue: Queue, group: str, order: str, bootstrap: str) -> None:
    """
    Also from a group with an order, whose leader first reads the keys of the next records.
    """
    tidemill("configs", "set", "--group", group, f"tidemill.share.order={order}", bootstrap=bootstrap)

    assert [(0, "a", 1)] == offsets(queue.rows("receive", "--as", "me"))
