"""`tidemill bench consume`: how fast a broker sends records to a consumer."""

import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tidemill.cli.bench_load import BenchLoad, BenchTopic, bench_topic
from tidemill.cli.bench_produce import Deliveries, send
from tidemill.cli.bench_report import Stopwatch, Timing, advance_bar, rates
from tidemill.cli.bootstrap import no_response
from tidemill.cli.failure import Failed
from tidemill.cli.kafka import client_config, failed

BATCH_RECORDS_MAX: Final = 1_000
BATCH_WAIT_S: Final = 0.1  # seconds per poll; Ctrl-C takes effect after at most this time
SILENCE_MAX_S: Final = 30.0
NO_GROUP: Final = "tidemill-bench"  # librdkafka requires a group id, but this group is never joined or committed to


def consumer(bootstrap: str) -> Consumer:
    """Return a consumer that joins no group and reports when it reaches the end of a partition."""
    return Consumer(
        client_config(
            bootstrap,
            **{
                "group.id": NO_GROUP,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.queue.backoff.ms": 1,
            },
        )
    )


def measure_consume(load: BenchLoad) -> dict[str, Any]:
    """Measure how fast records are read, and return the result.  Raise `Failed` if the topic is empty."""
    with bench_topic(load) as topic:
        if topic.is_temporary:
            _fill(topic, load)
        starts = topic.admin.offsets_of(topic.name, topic.partitions, OffsetSpec.earliest())
        ends = topic.admin.offsets_of(topic.name, topic.partitions, OffsetSpec.latest())
        available = sum(ends[partition] - starts[partition] for partition in topic.partitions)
        if not available:
            fix = f"`tidemill bench produce --topic {topic.name}` sends some"
            raise Failed(f"topic {topic.name!r} has no records to read; {fix}")
        count = min(load.records, available)
        reader = consumer(load.bootstrap)
        try:
            reader.assign([TopicPartition(topic.name, partition, starts[partition]) for partition in topic.partitions])
            with advance_bar("consuming", count) as advance:
                records, size, first_s, timing = _read(reader, topic, load, count, advance)
        finally:
            reader.close()
    return {
        "bench": "consume",
        "topic": topic.name,
        "is_temporary": topic.is_temporary,
        "partitions": len(topic.partitions),
        "size": round(size / records) if records else 0,
        "compression": load.compression if topic.is_temporary else None,
        "first_record_ms": round(1000 * first_s, 3) if records else None,
        "records": records,
        "failed": 0,
        "error": None,
        **rates(records, size, timing),
    }


def _fill(topic: BenchTopic, load: BenchLoad) -> None:
    deliveries = Deliveries(load.records)
    with advance_bar("filling the topic", load.records) as advance:
        send(Producer(load.producer_config()), topic.name, load, load.records, deliveries.delivered, advance)
    if deliveries.failed:
        raise Failed(f"{deliveries.failed} of the records to be read were not written: {deliveries.error}")


def _read(
    reader: Consumer, topic: BenchTopic, load: BenchLoad, count: int, advance: Callable[[int], None]
) -> tuple[int, int, float, Timing]:
    """
    Return the number of records read, their size in bytes, the seconds until the first one arrived, and the timing of
    the entire read.

    There is no warm-up: the client fetches ahead, so records read after a warm-up would seem to arrive faster than they
    do.
    """
    unfinished = set(topic.partitions)
    records, size, first_s = 0, 0, 0.0
    stopwatch = Stopwatch()
    last_at = time.monotonic()
    end = last_at + load.seconds
    while records < count and unfinished and time.monotonic() < end:
        before = records
        for message in reader.consume(min(BATCH_RECORDS_MAX, count - records), BATCH_WAIT_S):
            error = message.error()
            if error is None:
                records += 1
                size += len(message.value() or b"") + len(message.key() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
            else:
                raise failed(error, f"topic {topic.name!r}", load.bootstrap)
        if records > before:
            last_at = time.monotonic()
            first_s = first_s or stopwatch.read().seconds
            advance(records)
        elif time.monotonic() > last_at + SILENCE_MAX_S:
            raise no_response(load.bootstrap, f"topic {topic.name!r}: no records for {SILENCE_MAX_S:g} s")
    return records, size, first_s, stopwatch.read()
