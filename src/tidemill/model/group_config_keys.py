"""The configuration keys of a group: Kafka 4.3's keys, those of KIP-1191 for dead letters, and Tidemill's own."""

from typing import Final

from tidemill.model.back_off import parse_back_off
from tidemill.model.config_key import ConfigKey, obeyed, without_effect
from tidemill.model.config_types import ConfigType, ConfigValue
from tidemill.model.offset_reset import parse_offset_reset
from tidemill.model.topic import name_problem

BOOLEAN, STRING = ConfigType.BOOLEAN, ConfigType.STRING
INT, LONG = ConfigType.INT, ConfigType.LONG

NO_CONSUMER_PROTOCOL: Final = (
    "the consumer group protocol of KIP-848 is not implemented yet; members of classic groups bring their own settings"
)
NO_TRANSACTIONS: Final = "transactions are not implemented yet, so there are no records that are not committed"
NO_STREAMS_GROUPS: Final = "streams groups are not offered"


def _offset_reset_problem(value: ConfigValue) -> str | None:
    try:
        parse_offset_reset(str(value))
    except ValueError as requirement:
        return str(requirement)
    return None


def _back_off_problem(value: ConfigValue) -> str | None:
    try:
        parse_back_off(str(value))
    except ValueError as requirement:
        return str(requirement)
    return None


def _ttl_problem(value: ConfigValue) -> str | None:
    return "must be -1, for no time to live, or at least 1" if value == 0 else None


def _dead_letter_topic_problem(value: ConfigValue) -> str | None:
    name = str(value)
    if name.startswith("__"):
        return "names with this prefix are reserved: choose a topic whose name does not start with __"
    return name_problem(name) if name else None


GROUP_KEYS: Final[tuple[ConfigKey, ...]] = (
    without_effect("consumer.assignment.interval.ms", INT, 1_000, NO_CONSUMER_PROTOCOL, at_least=0),
    without_effect("consumer.heartbeat.interval.ms", INT, 5_000, NO_CONSUMER_PROTOCOL, at_least=1),
    without_effect("consumer.session.timeout.ms", INT, 45_000, NO_CONSUMER_PROTOCOL, at_least=1),
    obeyed(
        "share.assignment.interval.ms",
        INT,
        1_000,
        "The shortest time between two assignments of a share group's partitions.",
        at_least=0,
    ),
    obeyed(
        "share.auto.offset.reset",
        STRING,
        "latest",
        "Where a share group begins to read a partition: earliest, latest, or by_duration: with an ISO 8601 duration, "
        "such as by_duration:PT12H.  Partitions added to a topic later are read from their start.",
        check=_offset_reset_problem,
    ),
    obeyed(
        "share.delivery.count.limit",
        INT,
        5,
        "How often a record is delivered to the consumers of a share group before it is archived.",
        at_least=2,
    ),
    obeyed(
        "share.heartbeat.interval.ms", INT, 5_000, "How often a member of a share group sends a heartbeat.", at_least=1
    ),
    without_effect(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        NO_TRANSACTIONS,
        choices=("read_committed", "read_uncommitted"),
    ),
    obeyed(
        "share.partition.max.record.locks",
        INT,
        2_000,
        "How many records of a partition the consumers of a share group may hold at a time.",
        at_least=100,
    ),
    obeyed(
        "share.record.lock.duration.ms",
        INT,
        30_000,
        "How long a consumer of a share group holds a record; then the record is available to others again.",
        at_least=1_000,
    ),
    obeyed(
        "share.renew.acknowledge.enable",
        BOOLEAN,
        True,
        "Whether a consumer of a share group may renew its locks (KIP-1222).",
    ),
    obeyed(
        "share.session.timeout.ms",
        INT,
        45_000,
        "How long a share group waits for a member's heartbeat before it removes the member.",
        at_least=1,
    ),
    obeyed(
        "errors.deadletterqueue.copy.record.enable",
        BOOLEAN,
        True,
        "Whether a dead letter has the headers, key and value of its record, and not only headers that describe it.",
    ),
    obeyed(
        "errors.deadletterqueue.topic.name",
        STRING,
        "",
        "The topic for the dead letters of a share group: the records that were rejected, failed too often or "
        "expired.  That topic needs errors.deadletterqueue.group.enable=true.  If empty, such records are archived.",
        check=_dead_letter_topic_problem,
    ),
    obeyed(
        "tidemill.dlq.on.failure",
        STRING,
        "hold",
        "What happens to a dead letter that cannot be written: hold keeps the record and tries again every 1 to 30 s; "
        "drop archives it after 5 attempts, as Kafka does.",
        choices=("drop", "hold"),
    ),
    without_effect("streams.assignment.interval.ms", INT, 1_000, NO_STREAMS_GROUPS, at_least=0),
    without_effect("streams.heartbeat.interval.ms", INT, 5_000, NO_STREAMS_GROUPS, at_least=1),
    without_effect("streams.initial.rebalance.delay.ms", INT, 3_000, NO_STREAMS_GROUPS, at_least=0),
    without_effect("streams.num.standby.replicas", INT, 0, NO_STREAMS_GROUPS, at_least=0),
    without_effect("streams.session.timeout.ms", INT, 45_000, NO_STREAMS_GROUPS, at_least=1),
    # Keys that Kafka does not have.
    obeyed(
        "tidemill.share.backoff",
        STRING,
        "",
        "How long a record waits after a failed delivery, as JSON with kind (constant, linear or exponential), first, "
        "step (linear) or factor (exponential), max (at most 7d) and jitter (0 to 1): "
        '{"kind": "exponential", "first": "1s", "factor": 2, "max": "5m"}.  Empty: it does not wait.',
        check=_back_off_problem,
    ),
    obeyed(
        "tidemill.share.ttl.ms",
        LONG,
        -1,
        "The age of a record, by its timestamp, from which a share group no longer delivers it; -1 is no limit.",
        at_least=-1,
        check=_ttl_problem,
    ),
    obeyed(
        "tidemill.share.max.tracked",
        INT,
        10_000,
        "How many ranges of records of a partition, and dead letters that are not written yet, a share group tracks; "
        "at this number, it delivers no records behind the last range.",
        at_least=1_000,
        at_most=100_000,
    ),
    obeyed(
        "tidemill.share.order",
        STRING,
        "none",
        "Which records of a partition are not delivered at the same time: those with the same key (key), those of two "
        "batches (partition), or none.",
        choices=("none", "key", "partition"),
    ),
    obeyed(
        "tidemill.share.mode",
        STRING,
        "shared",
        "Whether the members of a share group share a partition (shared), or one member at a time reads it "
        "(exclusive).",
        choices=("shared", "exclusive"),
    ),
    obeyed(
        "tidemill.share.lookahead",
        INT,
        10_000,
        "How many records behind the first available one are opened to find their keys or priorities.",
        at_least=100,
        at_most=100_000,
    ),
    obeyed(
        "tidemill.share.priority",
        BOOLEAN,
        False,
        "Whether records with a higher header tidemill-priority, 0 to 9, are delivered first.",
    ),
    obeyed(
        "tidemill.share.failover.wait",
        BOOLEAN,
        False,
        "Whether a new leader of an ordered or exclusive share group waits for one lock duration before it delivers "
        "records, so that consumers of the previous leader no longer hold any.",
    ),
)
