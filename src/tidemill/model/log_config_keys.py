"""Broker configuration keys for logs: defaults for topic keys, retention, compaction and tiering."""

from typing import Final

from tidemill.model.config_key import ConfigKey, Update, obeyed, refused, without_effect
from tidemill.model.config_types import LONG_MAX, ConfigType, ConfigValue
from tidemill.model.topic_config_keys import (
    COMPRESSION_TYPES,
    NO_COMPACTION,
    NO_TIERING,
    ONLY_DELETE,
    PACED_WRITES,
    SYNCED_ANYWAY,
    gzip_level_problem,
)

BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
LONG = ConfigType.LONG
DOUBLE = ConfigType.DOUBLE
LIST = ConfigType.LIST
CLUSTER_WIDE = Update.CLUSTER_WIDE
DOUBLE_MAX: Final = 1.7976931348623157e308


def _retention_problem(value: ConfigValue) -> str | None:
    if isinstance(value, int) and (value == 0 or value < -1):
        return "must be -1 (keep all) or at least 1"
    return None


LOG_KEYS: Final[tuple[ConfigKey, ...]] = (
    obeyed(
        "log.index.interval.bytes", INT, 4_096, "The default of index.interval.bytes.", at_least=0, update=CLUSTER_WIDE
    ),
    obeyed(
        "log.message.timestamp.after.max.ms",
        LONG,
        3_600_000,
        "The default of message.timestamp.after.max.ms.",
        at_least=0,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "The default of message.timestamp.before.max.ms.",
        at_least=0,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "The default of message.timestamp.type.",
        choices=(
            "CreateTime",
            "LogAppendTime",
        ),
        update=CLUSTER_WIDE,
    ),
    obeyed("log.retention.bytes", LONG, -1, "The default of retention.bytes.", at_least=-1, update=CLUSTER_WIDE),
    obeyed(
        "log.retention.check.interval.ms",
        LONG,
        300_000,
        "How often the broker checks for expired segments.",
        at_least=1,
    ),
    obeyed(
        "log.retention.hours",
        INT,
        168,
        "The default of retention.ms, in hours; log.retention.minutes and .ms take precedence; -1 keeps all.",
        check=_retention_problem,
    ),
    obeyed(
        "log.retention.minutes",
        INT,
        None,
        "The default of retention.ms, in minutes; log.retention.ms takes precedence; -1 keeps all.",
        check=_retention_problem,
    ),
    obeyed(
        "log.retention.ms",
        LONG,
        None,
        "The default of retention.ms; -1 keeps all.",
        check=_retention_problem,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "log.roll.hours", INT, 168, "The default of segment.ms, in hours; log.roll.ms takes precedence.", at_least=1
    ),
    obeyed("log.roll.ms", LONG, None, "The default of segment.ms.", at_least=1, update=CLUSTER_WIDE),
    obeyed(
        "log.segment.bytes",
        INT,
        1_073_741_824,
        "The default of segment.bytes.",
        at_least=1_048_576,
        update=CLUSTER_WIDE,
    ),
    obeyed("message.max.bytes", INT, 1_048_588, "The default of max.message.bytes.", at_least=0, update=CLUSTER_WIDE),
    obeyed(
        "min.insync.replicas",
        INT,
        1,
        "The default of the topic's min.insync.replicas.",
        at_least=1,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "compression.type",
        STRING,
        "producer",
        "The default of the topic's compression.type.",
        choices=COMPRESSION_TYPES,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "compression.gzip.level",
        INT,
        -1,
        "The default of the topic's compression.gzip.level.",
        at_least=-1,
        at_most=9,
        check=gzip_level_problem,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "compression.lz4.level",
        INT,
        9,
        "The default of the topic's compression.lz4.level.",
        at_least=1,
        at_most=17,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "compression.zstd.level",
        INT,
        3,
        "The default of the topic's compression.zstd.level.",
        at_least=-131_072,
        at_most=22,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "producer.id.expiration.ms",
        INT,
        86_400_000,
        "A partition drops the state of an idempotent producer that was idle for this long, except of the newest 100.",
        at_least=1,
    ),
    refused(
        "log.cleanup.policy",
        LIST,
        ("delete",),
        ONLY_DELETE,
        choices=(
            "compact",
            "delete",
        ),
        update=CLUSTER_WIDE,
    ),
    refused("remote.log.storage.system.enable", BOOLEAN, False, NO_TIERING),
    refused(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "a leader that lacks acknowledged records would lose them",
        update=CLUSTER_WIDE,
    ),
    without_effect("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, NO_TIERING, update=CLUSTER_WIDE),
    without_effect("log.cleaner.backoff.ms", LONG, 15_000, NO_COMPACTION, at_least=0, update=CLUSTER_WIDE),
    without_effect("log.cleaner.dedupe.buffer.size", LONG, 134_217_728, NO_COMPACTION, update=CLUSTER_WIDE),
    without_effect("log.cleaner.delete.retention.ms", LONG, 86_400_000, NO_COMPACTION, at_least=0, update=CLUSTER_WIDE),
    without_effect("log.cleaner.enable", BOOLEAN, True, NO_COMPACTION),
    without_effect("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, NO_COMPACTION, update=CLUSTER_WIDE),
    without_effect("log.cleaner.io.buffer.size", INT, 524_288, NO_COMPACTION, at_least=0, update=CLUSTER_WIDE),
    without_effect("log.cleaner.io.max.bytes.per.second", DOUBLE, DOUBLE_MAX, NO_COMPACTION, update=CLUSTER_WIDE),
    without_effect("log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, NO_COMPACTION, at_least=1, update=CLUSTER_WIDE),
    without_effect(
        "log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, NO_COMPACTION, at_least=0, at_most=1, update=CLUSTER_WIDE
    ),
    without_effect("log.cleaner.min.compaction.lag.ms", LONG, 0, NO_COMPACTION, at_least=0, update=CLUSTER_WIDE),
    without_effect("log.cleaner.threads", INT, 1, NO_COMPACTION, at_least=0, update=CLUSTER_WIDE),
    without_effect(
        "log.dir.failure.timeout.ms",
        LONG,
        30_000,
        "a broker has one data directory and stops when that fails",
        at_least=1,
    ),
    without_effect("log.flush.interval.messages", LONG, LONG_MAX, SYNCED_ANYWAY, at_least=1, update=CLUSTER_WIDE),
    without_effect("log.flush.interval.ms", LONG, None, SYNCED_ANYWAY, update=CLUSTER_WIDE),
    without_effect("log.flush.offset.checkpoint.interval.ms", INT, 60_000, SYNCED_ANYWAY, at_least=0),
    without_effect("log.flush.scheduler.interval.ms", LONG, LONG_MAX, SYNCED_ANYWAY),
    without_effect("log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, SYNCED_ANYWAY, at_least=0),
    without_effect(
        "log.index.size.max.bytes",
        INT,
        10_485_760,
        "an index grows with its segment and is never preallocated",
        at_least=4,
        update=CLUSTER_WIDE,
    ),
    without_effect(
        "log.initial.task.delay.ms",
        LONG,
        30_000,
        "retention starts together with the broker",
        at_least=0,
        internal=True,
    ),
    without_effect("log.local.retention.bytes", LONG, -2, NO_TIERING, at_least=-2, update=CLUSTER_WIDE),
    without_effect("log.local.retention.ms", LONG, -2, NO_TIERING, at_least=-2, update=CLUSTER_WIDE),
    without_effect(
        "log.preallocate",
        BOOLEAN,
        False,
        "the journal is always preallocated and segments never are",
        update=CLUSTER_WIDE,
    ),
    without_effect("log.roll.jitter.hours", INT, 0, PACED_WRITES, at_least=0),
    without_effect("log.roll.jitter.ms", LONG, None, PACED_WRITES, update=CLUSTER_WIDE),
    without_effect(
        "log.segment.delete.delay.ms",
        LONG,
        60_000,
        "a read in progress keeps its file open, so files can be deleted at once",
        at_least=0,
        update=CLUSTER_WIDE,
    ),
    without_effect(
        "producer.id.expiration.check.interval.ms",
        INT,
        600_000,
        "expired producer states are dropped as the log advances",
        at_least=1,
        internal=True,
    ),
    without_effect("remote.fetch.max.wait.ms", INT, 500, NO_TIERING, at_least=1, update=CLUSTER_WIDE),
    without_effect("remote.list.offsets.request.timeout.ms", LONG, 30_000, NO_TIERING, at_least=1, update=CLUSTER_WIDE),
    without_effect(
        "remote.log.index.file.cache.total.size.bytes", LONG, 1_073_741_824, NO_TIERING, at_least=1, update=CLUSTER_WIDE
    ),
    without_effect("remote.log.index.file.cache.ttl.ms", LONG, 900_000, NO_TIERING, at_least=-1, internal=True),
    without_effect("remote.log.manager.copier.thread.pool.size", INT, 10, NO_TIERING, at_least=1, update=CLUSTER_WIDE),
    without_effect(
        "remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, NO_TIERING, at_least=1, update=CLUSTER_WIDE
    ),
    without_effect("remote.log.manager.copy.quota.window.num", INT, 11, NO_TIERING, at_least=1),
    without_effect("remote.log.manager.copy.quota.window.size.seconds", INT, 1, NO_TIERING, at_least=1),
    without_effect(
        "remote.log.manager.expiration.thread.pool.size", INT, 10, NO_TIERING, at_least=1, update=CLUSTER_WIDE
    ),
    without_effect(
        "remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, NO_TIERING, at_least=1, update=CLUSTER_WIDE
    ),
    without_effect("remote.log.manager.fetch.quota.window.num", INT, 11, NO_TIERING, at_least=1),
    without_effect("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, NO_TIERING, at_least=1),
    without_effect("remote.log.manager.follower.thread.pool.size", INT, 2, NO_TIERING, at_least=1, update=CLUSTER_WIDE),
    without_effect("remote.log.manager.task.interval.ms", LONG, 30_000, NO_TIERING, at_least=1),
    without_effect("remote.log.manager.task.retry.backoff.max.ms", LONG, 30_000, NO_TIERING, at_least=1, internal=True),
    without_effect("remote.log.manager.task.retry.backoff.ms", LONG, 500, NO_TIERING, at_least=1, internal=True),
    without_effect(
        "remote.log.manager.task.retry.jitter", DOUBLE, 0.2, NO_TIERING, at_least=0, at_most=0.5, internal=True
    ),
    without_effect("remote.log.manager.thread.pool.size", INT, 2, NO_TIERING, at_least=1),
    without_effect("remote.log.metadata.custom.metadata.max.bytes", INT, 128, NO_TIERING, at_least=0),
    without_effect(
        "remote.log.metadata.manager.class.name",
        STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        NO_TIERING,
    ),
    without_effect("remote.log.metadata.manager.class.path", STRING, None, NO_TIERING),
    without_effect("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", NO_TIERING),
    without_effect("remote.log.metadata.manager.listener.name", STRING, None, NO_TIERING),
    without_effect("remote.log.reader.max.pending.tasks", INT, 100, NO_TIERING, at_least=1),
    without_effect("remote.log.reader.threads", INT, 10, NO_TIERING, at_least=1, update=CLUSTER_WIDE),
    without_effect("remote.log.storage.manager.class.name", STRING, None, NO_TIERING),
    without_effect("remote.log.storage.manager.class.path", STRING, None, NO_TIERING),
    without_effect("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", NO_TIERING),
)
