"""The configuration keys of a topic: Kafka 4.3's keys, and Tidemill's own."""

from typing import Final

from tidemill.model.config_key import ConfigKey, obeyed, refused, without_effect
from tidemill.model.config_types import LONG_MAX, ConfigType, ConfigValue
from tidemill.model.topic_kind import KIND, TopicKind

BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST

NO_COMPACTION: Final = "only keyed topics are compacted, and they are not implemented yet"
ONLY_DELETE: Final = "only keyed topics are compacted, and they are not implemented yet"
COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
SYNCED_ANYWAY: Final = "every record is on disk before it is acknowledged"
PACED_WRITES: Final = "checkpoints pace their writes, so segments that roll at the same time do no harm"
NO_TIERING: Final = "tiering to object storage is not implemented yet"
NO_QUOTAS: Final = "throttling is not implemented yet"
ALL_COPIES: Final = "`leader.replication.throttled.rate` counts for all copies of replicas"


def _kind_problem(value: ConfigValue) -> str | None:
    return "keyed topics are not implemented yet; use log or timer" if value == TopicKind.KEYED else None


def gzip_level_problem(value: ConfigValue) -> str | None:
    return "must be -1, the default of gzip, or 1 to 9" if value == 0 else None


TOPIC_KEYS: Final[tuple[ConfigKey, ...]] = (
    # Keys for retention and compaction.
    refused("cleanup.policy", LIST, ("delete",), ONLY_DELETE, choices=("compact", "delete")),
    obeyed(
        "retention.ms",
        LONG,
        604_800_000,
        "How long records are kept: a segment is deleted once its newest record is older than this; -1 keeps all.",
        at_least=-1,
    ),
    obeyed(
        "retention.bytes",
        LONG,
        -1,
        "The bytes a partition keeps: its oldest segments are deleted while the rest has at least this many; "
        "-1 keeps all.",
        at_least=-1,
    ),
    without_effect("delete.retention.ms", LONG, 86_400_000, NO_COMPACTION, at_least=0),
    without_effect("min.cleanable.dirty.ratio", DOUBLE, 0.5, NO_COMPACTION, at_least=0, at_most=1),
    without_effect("min.compaction.lag.ms", LONG, 0, NO_COMPACTION, at_least=0),
    without_effect("max.compaction.lag.ms", LONG, LONG_MAX, NO_COMPACTION, at_least=1),
    # Keys for segments.
    obeyed(
        "segment.bytes",
        INT,
        1 << 30,
        "The size at which a segment is closed and a new one started.",
        at_least=1 << 20,
    ),
    obeyed(
        "internal.segment.bytes",
        INT,
        None,
        "Overrides segment.bytes and has no lower bound, for tests that need many small segments.",
        at_least=1,
        internal=True,
    ),
    obeyed("segment.ms", LONG, 604_800_000, "The age at which a segment is closed even if not full.", at_least=1),
    without_effect("segment.jitter.ms", LONG, 0, PACED_WRITES, at_least=0),
    obeyed("index.interval.bytes", INT, 4096, "The bytes between two entries of the offset index.", at_least=0),
    without_effect(
        "segment.index.bytes", INT, 10 << 20, "an index grows with its segment and is never preallocated", at_least=4
    ),
    without_effect("preallocate", BOOLEAN, False, "the journal is always preallocated and segments never are"),
    without_effect(
        "file.delete.delay.ms",
        LONG,
        60_000,
        "a read in progress keeps its file open, so files can be deleted at once",
        at_least=0,
    ),
    without_effect("flush.messages", LONG, LONG_MAX, SYNCED_ANYWAY, at_least=1),
    without_effect("flush.ms", LONG, LONG_MAX, SYNCED_ANYWAY, at_least=0),
    # Keys that limit the records that producers may send.
    obeyed(
        "max.message.bytes",
        INT,
        1_048_588,
        "The largest record batch accepted, in bytes with its header, as received and as stored.",
        at_least=0,
    ),
    obeyed(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "The clock that timestamps records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
    ),
    obeyed(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far a record's timestamp may be behind the broker's clock (CreateTime only).",
        at_least=0,
    ),
    obeyed(
        "message.timestamp.after.max.ms",
        LONG,
        3_600_000,
        "How far a record's timestamp may be ahead of the broker's clock (CreateTime only).",
        at_least=0,
    ),
    obeyed(
        "compression.type",
        STRING,
        "producer",
        "The codec in which batches are stored: the broker compresses a batch of another codec again; producer keeps "
        "every batch as it was sent.",
        choices=COMPRESSION_TYPES,
    ),
    obeyed(
        "compression.gzip.level",
        INT,
        -1,
        "The level at which the broker compresses if compression.type=gzip; -1 is the default of gzip.",
        at_least=-1,
        at_most=9,
        check=gzip_level_problem,
    ),
    obeyed(
        "compression.lz4.level",
        INT,
        9,
        "The level at which the broker compresses if compression.type=lz4; 9 is the fast method, every other level "
        "compresses more and takes longer.",
        at_least=1,
        at_most=17,
    ),
    obeyed(
        "compression.zstd.level",
        INT,
        3,
        "The level at which the broker compresses if compression.type=zstd.",
        at_least=-131_072,
        at_most=22,
    ),
    # Keys for replication.
    obeyed(
        "min.insync.replicas",
        INT,
        1,
        "Produce with acks=all fails while fewer replicas are in sync; a majority is always required.",
        at_least=1,
    ),
    refused(
        "unclean.leader.election.enable", BOOLEAN, False, "a leader that lacks acknowledged records would lose them"
    ),
    without_effect("leader.replication.throttled.replicas", LIST, (), ALL_COPIES),
    without_effect("follower.replication.throttled.replicas", LIST, (), ALL_COPIES),
    # Keys for tiered storage.
    refused("remote.storage.enable", BOOLEAN, False, NO_TIERING),
    without_effect("remote.log.copy.disable", BOOLEAN, False, NO_TIERING),
    without_effect("remote.log.delete.on.disable", BOOLEAN, False, NO_TIERING),
    without_effect("local.retention.bytes", LONG, -2, NO_TIERING, at_least=-2),
    without_effect("local.retention.ms", LONG, -2, NO_TIERING, at_least=-2),
    # Keys that Kafka does not have.
    obeyed(
        KIND,
        STRING,
        TopicKind.LOG,
        "The kind of the topic: log, or timer, which delivers each record when it is due; cannot change after "
        "creation. Keyed topics are not implemented yet.",
        choices=tuple(TopicKind),
        check=_kind_problem,
    ),
    obeyed(
        "tidemill.max.delay.ms",
        LONG,
        -1,
        "How far ahead the due time of a record may be (timer topics only); -1 allows times up to the year 9999.",
        at_least=-1,
    ),
    obeyed(
        "tidemill.timer.linger.ms",
        INT,
        5,
        "How long a due record may wait for others that are released with it (timer topics only).",
        at_least=0,
        at_most=1_000,
    ),
    obeyed(
        "tidemill.timer.waiting.bytes.max",
        LONG,
        -1,
        "The bytes of records that may wait in a partition (timer topics only): while there are more, Produce fails "
        "with KAFKA_STORAGE_ERROR; -1 sets no bound.",
        at_least=-1,
    ),
    obeyed(
        "tidemill.ttl.headers",
        BOOLEAN,
        False,
        "Whether share groups obey the header tidemill-ttl of records: the age, in ms, from which a record is no "
        "longer delivered.",
    ),
    # The key of KIP-1191.
    obeyed(
        "errors.deadletterqueue.group.enable",
        BOOLEAN,
        False,
        "Whether share groups may write their dead letters to the topic.",
    ),
)

TIMER_KEYS: Final = frozenset({"tidemill.max.delay.ms", "tidemill.timer.linger.ms", "tidemill.timer.waiting.bytes.max"})
"""The keys that only timer topics have."""
