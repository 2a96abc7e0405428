"""The configuration keys of a topic: Kafka 4.3's, and ours."""

from typing import Final

from tidemill.model.config_key import ConfigKey, obeyed, refused, without_effect
from tidemill.model.config_types import ConfigType, ConfigValue

BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
LONG_MAX: Final = (1 << 63) - 1

KIND: Final = "tidemill.kind"

NO_COMPACTION: Final = "compaction comes with keyed topics, which are not built yet"
ONLY_DELETE: Final = "only keyed topics are compacted, and they are not built yet"
NO_RECOMPRESSION: Final = (
    "the broker keeps batches as the producer compressed them; compressing them again is not built yet"
)
SYNCED_ANYWAY: Final = "every record is on disk before it is acknowledged"
PACED_WRITES: Final = "files are written by paced checkpoints, so that segments which roll together do no harm"
NO_TIERING: Final = "tiering to object storage is not built yet"
NO_QUOTAS: Final = "throttling is not built yet"


def _kind_problem(value: ConfigValue) -> str | None:
    if value in ("keyed", "timer"):
        return f"{value} topics are not built yet; use log"
    return None


TOPIC_KEYS: Final[tuple[ConfigKey, ...]] = (
    # What is kept, and how long.
    refused("cleanup.policy", LIST, ("delete",), ONLY_DELETE, choices=("compact", "delete")),
    obeyed(
        "retention.ms",
        LONG,
        604_800_000,
        "How long records are kept: a segment goes when its newest timestamp is older than this; -1 keeps all.",
        at_least=-1,
    ),
    obeyed(
        "retention.bytes",
        LONG,
        -1,
        "How many bytes a partition keeps: the oldest segments go while the rest is at least this big; -1 keeps all.",
        at_least=-1,
    ),
    without_effect("delete.retention.ms", LONG, 86_400_000, NO_COMPACTION, at_least=0),
    without_effect("min.cleanable.dirty.ratio", DOUBLE, 0.5, NO_COMPACTION, at_least=0, at_most=1),
    without_effect("min.compaction.lag.ms", LONG, 0, NO_COMPACTION, at_least=0),
    without_effect("max.compaction.lag.ms", LONG, LONG_MAX, NO_COMPACTION, at_least=1),
    # Segments.
    obeyed(
        "segment.bytes", INT, 1 << 30, "The size at which a segment is closed and the next begun.", at_least=1 << 20
    ),
    obeyed(
        "internal.segment.bytes",
        INT,
        None,
        "As segment.bytes, and stronger, without its lower bound: for tests that need many small segments.",
        at_least=1,
        internal=True,
    ),
    obeyed("segment.ms", LONG, 604_800_000, "The age at which a segment is closed, full or not.", at_least=1),
    without_effect("segment.jitter.ms", LONG, 0, PACED_WRITES, at_least=0),
    obeyed(
        "index.interval.bytes", INT, 4096, "How many bytes lie between two entries of the offset index.", at_least=0
    ),
    without_effect(
        "segment.index.bytes", INT, 10 << 20, "an index grows with its segment and is never preallocated", at_least=4
    ),
    without_effect("preallocate", BOOLEAN, False, "only the journal is preallocated, always"),
    without_effect(
        "file.delete.delay.ms", LONG, 60_000, "a read in progress keeps its file, so nothing has to wait", at_least=0
    ),
    without_effect("flush.messages", LONG, LONG_MAX, SYNCED_ANYWAY, at_least=1),
    without_effect("flush.ms", LONG, LONG_MAX, SYNCED_ANYWAY, at_least=0),
    # What is taken.
    obeyed(
        "max.message.bytes",
        INT,
        1_048_588,
        "The biggest record batch that is taken, as it comes (compressed, with its header).",
        at_least=0,
    ),
    obeyed(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "Whose clock stamps records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
    ),
    obeyed(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far a record's timestamp may lie before the broker's clock (CreateTime only).",
        at_least=0,
    ),
    obeyed(
        "message.timestamp.after.max.ms",
        LONG,
        3_600_000,
        "How far a record's timestamp may lie after the broker's clock (CreateTime only).",
        at_least=0,
    ),
    refused(
        "compression.type",
        STRING,
        "producer",
        NO_RECOMPRESSION,
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    without_effect("compression.gzip.level", INT, -1, NO_RECOMPRESSION, at_least=-1, at_most=9),
    without_effect("compression.lz4.level", INT, 9, NO_RECOMPRESSION, at_least=1, at_most=17),
    without_effect("compression.zstd.level", INT, 3, NO_RECOMPRESSION, at_least=-131_072, at_most=22),
    # Replication.
    obeyed(
        "min.insync.replicas",
        INT,
        1,
        "With fewer replicas in sync, produce with acks=all is refused; a majority is always needed.",
        at_least=1,
    ),
    refused(
        "unclean.leader.election.enable", BOOLEAN, False, "a leader that lacks acknowledged records would lose them"
    ),
    without_effect("leader.replication.throttled.replicas", LIST, (), NO_QUOTAS),
    without_effect("follower.replication.throttled.replicas", LIST, (), NO_QUOTAS),
    # Tiering.
    refused("remote.storage.enable", BOOLEAN, False, NO_TIERING),
    without_effect("remote.log.copy.disable", BOOLEAN, False, NO_TIERING),
    without_effect("remote.log.delete.on.disable", BOOLEAN, False, NO_TIERING),
    without_effect("local.retention.bytes", LONG, -2, NO_TIERING, at_least=-2),
    without_effect("local.retention.ms", LONG, -2, NO_TIERING, at_least=-2),
    # Ours.
    obeyed(
        KIND,
        STRING,
        "log",
        "What the topic is: log, keyed or timer; fixed when it is created.",
        choices=("log", "keyed", "timer"),
        check=_kind_problem,
    ),
)
