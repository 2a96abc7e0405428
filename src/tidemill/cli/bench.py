"""Measure a broker, Tidemill or any other that speaks Kafka.

A temporary topic is used and deleted afterwards, unless --topic names one.

\b
Examples:
  tidemill bench produce --records 20000
  tidemill bench consume --records 20000 --size 1000
  tidemill bench latency --records 500 --rate 500
  tidemill bench produce --seconds 1 --acks 1 --compression zstd --json
"""

import signal
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.bootstrap import BootstrapOption, JsonOption, resolve
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.failure import ExitCode, Failed

if TYPE_CHECKING:
    from tidemill.cli.bench_load import BenchLoad


class Acks(StrEnum):
    ALL = "all"
    LEADER = "1"
    NONE = "0"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


RecordsOption = Annotated[int, typer.Option(metavar="N", min=1, help="Stop after N records.")]
SecondsOption = Annotated[float, typer.Option(metavar="S", min=0.1, help="Stop after S seconds at the latest.")]
SizeOption = Annotated[
    int, typer.Option(metavar="BYTES", min=16, help="Bytes of a value: random hex digits, which compress to half.")
]
PartitionsOption = Annotated[int, typer.Option(metavar="N", min=1, help="Partitions of the temporary topic.")]
ReplicationOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Of the temporary topic.  Default: the broker's.")
]
AcksOption = Annotated[Acks, typer.Option(help="Which replicas acknowledge: all in sync, the leader, or none.")]
CompressionOption = Annotated[Compression, typer.Option(help="How the client compresses batches.")]
LingerOption = Annotated[float, typer.Option(metavar="MS", min=0, help="How long a batch waits for more records.")]
TopicOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="An existing topic to use and keep.", show_default=False)
]


def register(application: typer.Typer) -> None:
    bench = CommandGroup("bench", __doc__)
    for command in (produce, consume, latency):
        bench.command()(command)
    application.add_typer(bench)


def produce(
    records: RecordsOption = 1_000_000,
    seconds: SecondsOption = 60,
    size: SizeOption = 100,
    partitions: PartitionsOption = 6,
    replication_factor: ReplicationOption = None,
    acks: AcksOption = Acks.ALL,
    compression: CompressionOption = Compression.NONE,
    linger: LingerOption = 5,
    topic: TopicOption = None,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Send records as fast as the broker acknowledges them.

    A tenth as many records, at most 10,000, are sent first and not counted.  Latencies are from the call that sends a
    record until its acknowledgement, so they include the time in the client's queue, which is always full here.

    Examples:

      tidemill bench produce

      tidemill bench produce --records 100000 --size 1000 --acks 1 --compression lz4
    """
    load = _load(bootstrap, topic, records, seconds, size, partitions, replication_factor, acks, compression, linger)

    from tidemill.cli.bench_produce import measure_produce

    _run(measure_produce, load, as_json=as_json)


def consume(
    records: RecordsOption = 1_000_000,
    seconds: SecondsOption = 60,
    size: SizeOption = 100,
    partitions: PartitionsOption = 6,
    replication_factor: ReplicationOption = None,
    compression: CompressionOption = Compression.NONE,
    topic: TopicOption = None,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Read records as fast as the broker sends them.

    The temporary topic is filled first, which is not measured, so its records come from the broker's memory.  With
    --topic, the oldest records of that topic are read.  The clock starts when the consumer does, without a warm-up: the
    client fetches ahead, so records after a warm-up would seem faster than they are.

    Examples:

      tidemill bench consume

      tidemill bench consume --topic orders --records 100000
    """
    load = _load(bootstrap, topic, records, seconds, size, partitions, replication_factor, Acks.ALL, compression, 5)

    from tidemill.cli.bench_consume import measure_consume

    _run(measure_consume, load, as_json=as_json)


def latency(
    rate: Annotated[float, typer.Option(metavar="N", min=1, max=10_000, help="Records per second.")] = 1_000,
    records: RecordsOption = 10_000,
    seconds: SecondsOption = 60,
    size: SizeOption = 100,
    partitions: PartitionsOption = 1,
    replication_factor: ReplicationOption = None,
    acks: AcksOption = Acks.ALL,
    compression: CompressionOption = Compression.NONE,
    topic: TopicOption = None,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Send records at a constant rate, and measure until they are acknowledged and until a consumer has them.

    Records are due at fixed times, and end-to-end latency counts from these times, so a stall delays all records that
    were due meanwhile.  A tenth as many records, at most 10,000, are sent first and not counted.

    Examples:

      tidemill bench latency

      tidemill bench latency --rate 5000 --records 50000 --acks 1
    """
    load = _load(bootstrap, topic, records, seconds, size, partitions, replication_factor, acks, compression, 0)

    from tidemill.cli.bench_latency import measure_latency

    _run(lambda load: measure_latency(load, rate), load, as_json=as_json)


def _load(
    bootstrap: str | None,
    topic: str | None,
    records: int,
    seconds: float,
    size: int,
    partitions: int,
    replication_factor: int | None,
    acks: Acks,
    compression: Compression,
    linger_ms: float,
) -> "BenchLoad":
    address = resolve(bootstrap)  # Report usage errors before importing confluent-kafka.

    from tidemill.cli.bench_load import BenchLoad  # imported here because the import is slow (decision 12)

    return BenchLoad(
        bootstrap=address,
        topic=topic,
        records=records,
        seconds=seconds,
        size=size,
        partitions=partitions,
        replication_factor=replication_factor,
        acks=acks.value,
        compression=compression.value,
        linger_ms=linger_ms,
    )


def _run(measure: "Callable[[BenchLoad], dict[str, Any]]", load: "BenchLoad", *, as_json: bool) -> None:
    """Run the benchmark and print its result.  Raise `Failed` if any record failed."""
    from tidemill.cli.bench_report import print_result

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises KeyboardInterrupt: the topic is deleted
    try:
        result = measure(load)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    print_result(result, as_json=as_json)
    if result["failed"]:
        raise Failed(f"{result['failed']} of the records failed: {result['error']}")
