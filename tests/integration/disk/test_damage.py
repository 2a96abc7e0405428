"""A flipped bit on disk, end to end: a real broker reports the damaged batch and never serves it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.cli.command import ENVIRONMENT, tidemill
from tidemill.batches.batch import HEADER_BYTES, read_header
from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.connection_settings import Endpoint, from_keys
from tidemill.model import errors
from tidemill.wire.messages import fetch

TOPIC = "damaged"
RECORDS = 6
FLIPPED = 3  # the offset of the record whose batch is damaged
POLL_S = 2.0


@contextmanager
def running_broker(directory: Path, events: Path) -> Iterator[str]:
    """Run a broker and yield its bootstrap address; stop it cleanly, with a last checkpoint."""
    options = ("--data", str(directory), "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--json")
    command = [sys.executable, "-m", "tidemill", "dev", *options]
    with (
        events.open("ab") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=ENVIRONMENT) as broker,
    ):
        assert broker.stdout is not None
        try:
            yield json.loads(broker.stdout.readline())["kafka"]
        finally:
            broker.terminate()
            broker.wait(timeout=20)


def produce_single_batches(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"record %d" % number, partition=0)
        assert 0 == producer.flush(10)


def segment_with_records(directory: Path) -> Path:
    (found,) = [path for path in directory.glob("topics/*/0/*.log") if b"record 0" in path.read_bytes()]
    return found


def flip_record(path: Path, offset: int) -> tuple[int, int]:
    """Flip a bit of the batch at `offset`; return the batch's position and size."""
    data = bytearray(path.read_bytes())
    position = 0
    while read_header(data, position).base_offset != offset:
        position += read_header(data, position).size_bytes
    data[position + HEADER_BYTES + 8] ^= 4
    path.write_bytes(data)
    return position, read_header(data, position).size_bytes


def fetch_at(bootstrap: str, offset: int) -> fetch.Response.Topic.Partition:
    """Return the broker's response with its error code, which clients hide."""
    host, _, port = bootstrap.rpartition(":")
    connection = BrokerConnection(Endpoint(host, int(port)), from_keys({"bootstrap.servers": bootstrap}))
    wanted = fetch.Request.Topic.Partition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    request = fetch.Request(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[fetch.Request.Topic(topic=TOPIC, partitions=[wanted])],
    )
    try:
        response = connection.request(fetch.API, request, version=12)
    finally:
        connection.close()
    (answer,) = response.responses[0].partitions
    return answer


def consumed(bootstrap: str) -> list[bytes]:
    """Return the values that a consumer receives until no more arrive."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values = []
    try:
        while (message := consumer.poll(POLL_S)) is not None:
            if message.error() is None:
                values.append(message.value())
    finally:
        consumer.close()
    return values


def test_a_damaged_batch_is_reported_and_never_served(tmp_path: Path) -> None:
    """Clients get the records before the damaged batch, and KAFKA_STORAGE_ERROR for the batch itself.  The event log
    and `log verify` report its position.
    """
    directory, events = tmp_path / "data", tmp_path / "events"
    with running_broker(directory, events) as bootstrap:
        produce_single_batches(bootstrap)
    path = segment_with_records(directory)
    position, size = flip_record(path, FLIPPED)

    with running_broker(directory, events) as bootstrap:
        codes = [fetch_at(bootstrap, offset).error_code for offset in range(RECORDS)]
        values = consumed(bootstrap)
        verified = tidemill("log", "verify", str(directory), "--json")

    hit = errors.KAFKA_STORAGE_ERROR
    assert hit == codes[FLIPPED]
    assert [FLIPPED] == [offset for offset, code in enumerate(codes) if code]
    assert [b"record %d" % number for number in range(FLIPPED)] == values
    reported = [json.loads(line) for line in events.read_text().splitlines() if '"segment damaged"' in line]
    name = str(path.relative_to(directory))
    assert reported
    assert all(name in event["problem"] and f"byte {position} " in event["problem"] for event in reported)
    damage, _ = map(json.loads, verified.out.splitlines())
    assert (1, name, position, size, FLIPPED, FLIPPED + 1) == (
        verified.exit_code,
        damage["file"],
        damage["position"],
        damage["size"],
        damage["offset"],
        damage["end_offset"],
    )


def test_verify_reports_no_damage_while_a_broker_writes(tmp_path: Path) -> None:
    """`log verify` does not report a write in progress as damage."""
    directory = tmp_path / "data"
    with running_broker(directory, tmp_path / "events") as bootstrap:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        outcomes = []
        for _ in range(4):
            for number in range(5_000):
                producer.produce("busy", b"%0500d" % number)
            producer.poll(0)
            outcomes.append(tidemill("log", "verify", str(directory)))
            producer.flush(10)

    assert [0] * 4 == [outcome.exit_code for outcome in outcomes], outcomes
