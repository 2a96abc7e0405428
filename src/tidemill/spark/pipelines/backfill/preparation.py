"""Plans a backfill, or loads the plan of an earlier run and checks that the files and the topic still match it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.batches.compression import Codec
from tidemill.columnar import sink_options
from tidemill.columnar.sink_options import SinkOptions
from tidemill.spark.pipelines.backfill.backfill_state import BackfillPlan, BackfillState
from tidemill.spark.pipelines.backfill.options import BackfillOptions
from tidemill.spark.pipelines.backfill.parts import RecordReader
from tidemill.spark.pipelines.backfill.record_columns import RecordColumns
from tidemill.spark.pipelines.backfill.scan import Scan
from tidemill.spark.pipelines.backfill.source_format import ListedFile, SourceFormat
from tidemill.spark.pipelines.backfill.time_groups import SourceFile, time_groups
from tidemill.spark.pipelines.frame import topic_fitness
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.one_topic import OneTopic

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Everything that is decided before the first record is written."""

    plan: BackfillPlan
    is_resumed: bool
    sink: SinkOptions
    reader: RecordReader
    refusals: tuple[str, ...]  # the reasons why the topic would refuse or remove records
    notes: tuple[str, ...]


def prepare(job: Job[BackfillOptions]) -> Preparation:
    """
    Return the stored plan of the first run, or a new plan if there is none.  Nothing is written.

    Raise ValueError for an invalid option, file or row, or for a plan that no longer matches; ClientError if a request
    fails.
    """
    options = job.options
    sink = sink_options.parse({**{name.lower(): value for name, value in job.kafka.items()}, "topic": options.topic})
    state = BackfillState(job.state)
    known = state.plan()
    format = SourceFormat(format=options.format, reader=options.reader_options())
    with OneTopic(options.topic, job.kafka) as topic:
        notes: tuple[str, ...] = ()
        listed: list[ListedFile] = []
        if known is None:
            listed = format.list(job.spark, options.source)
            schema = _schema(job, format, listed)
        else:
            needed = _needed(known, state)
            # Once all records are written or sorted, the source files are no longer needed and may be gone.
            listed = format.list(job.spark, options.source) if needed else []
            notes = _checked_again(options, topic, known, needed, listed)
            schema = _struct(known)
        count = topic.partition_count() if known is None else known.partition_count
        columns = RecordColumns(options=options, schema=schema, partition_count=count)
        columns.check()
        plan = known
        if plan is None:
            limit = _bytes_max(sink, topic)
            scan = Scan(spark=job.spark, format=format, schema=schema, columns=columns, batch_bytes_max=limit)
            plan = _new_plan(job, topic, scan, listed)
        refusals = _refusals(options, topic, plan)
    return Preparation(
        plan=plan,
        is_resumed=known is not None,
        sink=sink,
        reader=RecordReader(spark=job.spark, format=format, schema=schema, columns=columns),
        refusals=refusals,
        notes=notes,
    )


def _new_plan(job: Job[BackfillOptions], topic: OneTopic, scan: Scan, listed: Sequence[ListedFile]) -> BackfillPlan:
    then = None
    if job.options.then is not None:
        # Look up the end offsets of the live topic before the scan, and therefore before the first record is written.
        with OneTopic(job.options.then, job.kafka) as live:
            then = live.numbered_ends()
    job.progress.begin(f"scanning {len(listed):,} files", None)
    files = scan.files(listed)
    part_records = job.options.records_per_part(sum(file.records for file in files), sum(file.bytes for file in files))
    return BackfillPlan(
        schema=scan.schema.jsonValue(),
        topic_id=topic.topic_id(),
        partition_count=scan.columns.partition_count,
        part_records=part_records,
        groups=tuple(time_groups(files, part_records)),
        empty_files=tuple(sorted({file.path for file in listed} - {file.path for file in files})),
        then=then,
    )


def _schema(job: Job[BackfillOptions], format: SourceFormat, listed: Sequence[ListedFile]) -> "StructType":
    from pyspark.errors import ParseException
    from pyspark.sql.types import StructType

    paths = [file.path for file in listed]
    if job.options.schema is None:
        return format.infer(job.spark, paths)
    try:
        given = StructType.fromDDL(job.options.schema)
        assert isinstance(given, StructType), "columns, not the type of one"
    except ParseException as error:
        raise ValueError(
            f"schema={job.options.schema} is not understood ({str(error).splitlines()[0]}): write for example "
            "'carrier STRING, time TIMESTAMP'"
        ) from error
    return format.with_directories(job.spark, given, paths)


def _struct(plan: BackfillPlan) -> "StructType":
    from pyspark.sql.types import StructType

    return StructType.fromJson(dict(plan.schema))


def _bytes_max(sink: SinkOptions, topic: OneTopic) -> int | None:
    """
    Return the maximum size of a batch with a single record, or None if it is unknown or the records are compressed.
    """
    if sink.producer.codec is not Codec.NONE:
        return None
    told = topic.configurations(["max.message.bytes"]).get("max.message.bytes")
    return None if told is None else min(int(told), sink.producer.request_bytes_max)


def _refusals(options: BackfillOptions, topic: OneTopic, plan: BackfillPlan) -> tuple[str, ...]:
    if not plan.groups:
        return ()
    configs = topic.configurations(topic_fitness.KEYS)
    return tuple(
        topic_fitness.refusals(
            options.topic,
            configs,
            first_us=plan.groups[0].first_us,
            last_us=plan.groups[-1].last_us,
            partition_bytes=max(_partition_bytes(plan).values()),
            now_ms=time.time_ns() // 1_000_000,
            is_expiry_allowed=options.allow_expired,
        )
    )


def _partition_bytes(plan: BackfillPlan) -> dict[int, int]:
    """Return the estimated number of bytes that each partition of the topic receives."""
    found: dict[int, int] = {}
    for file in plan.files:
        for partition, records in file.partitions.items():
            found[partition] = found.get(partition, 0) + file.bytes * records // file.records
    return found


def _checked_again(
    options: BackfillOptions,
    topic: OneTopic,
    plan: BackfillPlan,
    needed: Sequence[SourceFile],
    listed: Sequence[ListedFile],
) -> tuple[str, ...]:
    """Return notes for the user of a resumed run.  Raise ValueError if the topic or files are not those of the plan."""
    notes = []
    count = topic.partition_count()
    topic_id = topic.topic_id()
    if plan.topic_id is not None and topic_id is not None and topic_id != plan.topic_id:
        raise ValueError(
            f"topic={options.topic} was deleted and created again since the run was planned, so what was written is "
            "gone: start again with another state directory"
        )
    if count > plan.partition_count:
        notes.append(
            f"topic {options.topic} had {plan.partition_count} partitions when the run was planned, and now has "
            f"{count}: the rest of the files still goes to the first {plan.partition_count}, so that keys keep their "
            "order"
        )
    by_path = {file.path: file for file in listed}
    for file in needed:
        now = by_path.get(file.path)
        if now is None or (now.size, now.modified_ms) != (file.size, file.modified_ms):
            what = "is gone" if now is None else f"has changed from {file.size} to {now.size} bytes, or was rewritten,"
            raise ValueError(
                f"{file.path} {what} since the run was planned: restore it, or start again with another state directory"
            )
    added = by_path.keys() - {file.path for file in plan.files} - set(plan.empty_files)
    if added:
        more = f" and {len(added) - 1:,} more files are" if len(added) > 1 else " is"
        notes.append(f"{min(added)}{more} new since the run was planned, and not read")
    return tuple(notes)


def _needed(plan: BackfillPlan, state: BackfillState) -> list[SourceFile]:
    """Return the files that the remaining part of the run reads."""
    position = state.position()
    return [
        file
        for index, group in enumerate(plan.groups)
        if index >= position.group and state.parts(index) is None
        for file in group.files
    ]
