"""The documented options of the source.  Other keys with the prefix `kafka.` are client settings."""

from typing import Final

from tidemill.columnar.option_table import Option

_POSITION: Final = (
    "`earliest`, `latest`, offsets per partition as JSON (`-2` is earliest, `-1` latest), `-10m` (that long ago; units "
    "`s`, `m`, `h`, `d`), `-1000` (that many offsets before the end of each partition), or `group:NAME` (what this "
    "consumer group has committed; a partition without a commit is at its earliest offset)."
)

OPTIONS: Final = (
    Option("kafka.bootstrap.servers", "HOST:PORT,…", "", "The brokers to ask first. Required."),
    Option("subscribe", "topic,…", "", "The topics to read. Exactly one of the three subscriptions is required."),
    Option("subscribePattern", "regular expression", "", "Reads all topics whose whole name matches."),
    Option("assign", "JSON", "", 'Reads these partitions only: `{"topic":[0,1]}`.'),
    Option(
        "mode",
        "offsets or share",
        "offsets",
        "`share`: streaming only. The query processes the records of a share group, each of which is acknowledged when "
        "its micro-batch is complete. Options about offsets, timestamps, bytes and data loss are refused.",
    ),
    Option("group", "group", "", "Required with `mode=share`, and refused without: the share group."),
    Option(
        "startingOffsets",
        "position",
        "latest; batch: earliest",
        f"Where a new query starts: {_POSITION} A query that resumes from a checkpoint ignores it.",
    ),
    Option(
        "startingTimestamp",
        "milliseconds",
        "",
        "Starts at the first record at or after this time in every partition. Wins over the two other start options.",
    ),
    Option(
        "startingOffsetsByTimestamp",
        "JSON",
        "",
        'The same with a time per partition: `{"topic":{"0":1357034400000}}`. Wins over `startingOffsets`.',
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "error or latest",
        "error",
        "What happens where no record is at or after the starting timestamp.",
    ),
    Option("endingOffsets", "position", "latest", f"Batch only. Where the read ends (exclusive): {_POSITION}"),
    Option("endingTimestamp", "milliseconds", "", "Batch only. Ends before the first record at or after this time."),
    Option("endingOffsetsByTimestamp", "JSON", "", "Batch only. The same with a time per partition."),
    Option("includeHeaders", "boolean", "false", "Adds the column `headers`."),
    Option(
        "records",
        "any, dead-letters or waiting",
        "any",
        "`dead-letters` adds the columns `cause`, `attempts`, `origin_topic`, `origin_partition`, `origin_offset` and "
        "`origin_group`, which are read from the headers of dead letters. `waiting`, batch only: the records of timer "
        "topics that are not due yet, with the columns `arrival`, `deliver_at` and `timer_id`. Options about offsets, "
        "tasks and data loss are refused.",
    ),
    Option(
        "maxOffsetsPerTrigger",
        "number",
        "",
        "Streaming only. The most offsets of a micro-batch, shared in proportion to what is pending; the most records "
        "with `mode=share`.",
    ),
    Option(
        "maxBytesPerTrigger",
        "size (64m)",
        "",
        "Streaming only. The most bytes of a micro-batch as the broker stores them (compressed), estimated from up to "
        "eight batches of each partition. With `maxOffsetsPerTrigger`, both limits hold.",
    ),
    Option("minOffsetsPerTrigger", "number", "", "Streaming only. Delays a micro-batch until this many are pending."),
    Option("maxTriggerDelay", "duration", "15m", "The longest delay because of `minOffsetsPerTrigger`."),
    Option("minPartitions", "number", "", "At least about this many tasks: larger ranges are split."),
    Option("maxRecordsPerPartition", "number", "", "The most offsets of a task."),
    Option(
        "maxBytesPerPartition",
        "size (128m)",
        "",
        "The most bytes of a task as the broker stores them (compressed), estimated like `maxBytesPerTrigger`.",
    ),
    Option(
        "commitGroup",
        "group",
        "",
        "Streaming only. Commits the end of every completed micro-batch to this consumer group, so that lag tools show "
        "the query. The checkpoint alone decides where the query resumes. A commit that fails is only logged.",
    ),
    Option(
        "onDataLoss",
        "fail, skip or report",
        "fail",
        "What happens when records that should be read no longer exist. `report` continues like `skip`, and writes a "
        "row for each loss to `dataLossLog`.",
    ),
    Option(
        "dataLossLog",
        "directory or URI",
        "",
        "Where `onDataLoss=report` writes JSON files with the columns `reported_at`, `what`, `topic`, `partition`, "
        "`start_offset` and `end_offset`. Driver and executors must be able to write there.",
    ),
    Option("failOnDataLoss", "boolean", "true", "Spark's name for `onDataLoss`: `true` is `fail`, `false` is `skip`."),
    Option(
        "kafka.isolation.level",
        "read_uncommitted or read_committed",
        "read_uncommitted",
        "Whether records of open and aborted transactions are read.",
    ),
    Option(
        "filterPushdown",
        "boolean",
        "false",
        "Batch only. The source applies filters on `partition`, `offset`, `timestamp` and `key`, so that less is read. "
        "Set it only for a DataFrame that one query reads, and reads once: Spark applies these filters to every later "
        "read of the same DataFrame or view, too.",
    ),
    Option("kafkaConsumer.pollTimeoutMs", "milliseconds", "120000", "How long a task waits for records."),
    Option("fetchOffset.numRetries", "number", "3", "Attempts to look up offsets."),
    Option("fetchOffset.retryIntervalMs", "milliseconds", "10", "The pause between them."),
    Option("groupIdPrefix", "string", "", "Accepted without effect: the source joins no group."),
)
