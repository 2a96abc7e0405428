"""Broker configuration keys for groups, committed offsets, transactions and share groups."""

from typing import Final

from tidemill.model.config_key import ConfigKey, Update, obeyed, refused, without_effect
from tidemill.model.config_types import INT_MAX, ConfigType
from tidemill.model.group_config_keys import NO_CONSUMER_PROTOCOL, NO_STREAMS_GROUPS

BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
SHORT = ConfigType.SHORT
LONG = ConfigType.LONG
LIST = ConfigType.LIST
CLUSTER_WIDE = Update.CLUSTER_WIDE
COORDINATOR_ON_THE_LOOP: Final = (
    "a coordinator runs on the broker's event loop and answers as soon as its log has committed"
)
NO_TRANSACTIONS: Final = "transactions are not implemented yet"
ONE_SHARE_ASSIGNOR: Final = "the simple assignor is the only one"
SHARES_IN_THE_LOG: Final = "the state of a share group is in the log of each partition's shard; there is no persister"

COORDINATOR_KEYS: Final[tuple[ConfigKey, ...]] = (
    obeyed(
        "group.initial.rebalance.delay.ms",
        INT,
        3_000,
        "How long the first rebalance of an empty group waits for more members.",
        at_least=0,
    ),
    obeyed(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        "The longest session timeout that a member may request.",
        at_least=1,
    ),
    obeyed("group.max.size", INT, INT_MAX, "The most members of one group.", at_least=1),
    obeyed(
        "group.min.session.timeout.ms",
        INT,
        6_000,
        "The shortest session timeout that a member may request.",
        at_least=1,
    ),
    obeyed(
        "offset.metadata.max.bytes",
        INT,
        4_096,
        "The most bytes of metadata stored with a committed offset.",
        at_least=0,
    ),
    obeyed(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "How often the coordinator checks for expired offsets.",
        at_least=1,
    ),
    obeyed(
        "offsets.retention.minutes", INT, 10_080, "How long committed offsets of an empty group are kept.", at_least=1
    ),
    obeyed(
        "offsets.topic.num.partitions",
        INT,
        8,
        "The partition count with which __consumer_offsets is created.",
        at_least=1,
    ),
    obeyed(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "The replication factor of __consumer_offsets, limited by the number of brokers.",
        at_least=1,
    ),
    obeyed("offsets.topic.segment.bytes", INT, 104_857_600, "The segment.bytes of __consumer_offsets.", at_least=1),
    refused("transaction.two.phase.commit.enable", BOOLEAN, False, "transactions are not implemented yet"),
    without_effect("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, NO_TRANSACTIONS, at_least=0),
    without_effect("add.partitions.to.txn.retry.backoff.ms", INT, 20, NO_TRANSACTIONS, at_least=1),
    without_effect(
        "group.consumer.assignment.interval.ms", INT, 1_000, NO_CONSUMER_PROTOCOL, at_least=0, update=CLUSTER_WIDE
    ),
    without_effect(
        "group.consumer.assignors",
        LIST,
        (
            "uniform",
            "range",
        ),
        NO_CONSUMER_PROTOCOL,
    ),
    without_effect("group.consumer.heartbeat.interval.ms", INT, 5_000, NO_CONSUMER_PROTOCOL, at_least=1),
    without_effect("group.consumer.max.assignment.interval.ms", INT, 15_000, NO_CONSUMER_PROTOCOL, at_least=0),
    without_effect("group.consumer.max.heartbeat.interval.ms", INT, 15_000, NO_CONSUMER_PROTOCOL, at_least=1),
    without_effect("group.consumer.max.session.timeout.ms", INT, 60_000, NO_CONSUMER_PROTOCOL, at_least=1),
    without_effect("group.consumer.max.size", INT, INT_MAX, NO_CONSUMER_PROTOCOL, at_least=1),
    without_effect("group.consumer.migration.policy", STRING, "bidirectional", NO_CONSUMER_PROTOCOL),
    without_effect("group.consumer.min.assignment.interval.ms", INT, 0, NO_CONSUMER_PROTOCOL, at_least=0),
    without_effect("group.consumer.min.heartbeat.interval.ms", INT, 5_000, NO_CONSUMER_PROTOCOL, at_least=1),
    without_effect("group.consumer.min.session.timeout.ms", INT, 45_000, NO_CONSUMER_PROTOCOL, at_least=1),
    without_effect(
        "group.consumer.regex.refresh.interval.ms", INT, 600_000, NO_CONSUMER_PROTOCOL, at_least=10_000, internal=True
    ),
    without_effect("group.consumer.session.timeout.ms", INT, 45_000, NO_CONSUMER_PROTOCOL, at_least=1),
    without_effect("group.coordinator.append.linger.ms", INT, -1, COORDINATOR_ON_THE_LOOP, at_least=-1),
    without_effect("group.coordinator.background.threads", INT, 2, COORDINATOR_ON_THE_LOOP, at_least=1),
    without_effect(
        "group.coordinator.cached.buffer.max.bytes",
        INT,
        1_048_588,
        COORDINATOR_ON_THE_LOOP,
        at_least=524_288,
        update=CLUSTER_WIDE,
    ),
    without_effect(
        "group.coordinator.rebalance.protocols",
        LIST,
        (
            "classic",
            "consumer",
            "streams",
        ),
        "only the classic protocol is implemented yet",
        choices=(
            "consumer",
            "classic",
            "share",
            "streams",
        ),
    ),
    without_effect("group.coordinator.threads", INT, 4, COORDINATOR_ON_THE_LOOP, at_least=1),
    obeyed(
        "errors.deadletterqueue.auto.create.topics.enable",
        BOOLEAN,
        False,
        "Whether the missing dead-letter topic of a share group is created, if its name has the prefix in "
        "errors.deadletterqueue.topic.name.prefix.",
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "errors.deadletterqueue.topic.name.prefix",
        STRING,
        "dlq.",
        "The prefix of the names of dead-letter topics that the cluster may create.",
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "group.share.assignment.interval.ms",
        INT,
        1_000,
        "The default of a group's share.assignment.interval.ms.",
        at_least=0,
        update=CLUSTER_WIDE,
    ),
    without_effect("group.share.assignors", LIST, ("simple",), ONE_SHARE_ASSIGNOR),
    obeyed(
        "group.share.delivery.count.limit",
        INT,
        5,
        "The default of a group's share.delivery.count.limit.",
        at_least=2,
        at_most=10,
    ),
    obeyed(
        "group.share.heartbeat.interval.ms",
        INT,
        5_000,
        "The default of a group's share.heartbeat.interval.ms.",
        at_least=1,
    ),
    without_effect(
        "group.share.initialize.retry.interval.ms", INT, 30_000, SHARES_IN_THE_LOG, at_least=1, internal=True
    ),
    obeyed(
        "group.share.max.assignment.interval.ms",
        INT,
        15_000,
        "The largest share.assignment.interval.ms that a group may set.",
        at_least=0,
    ),
    obeyed(
        "group.share.max.delivery.count.limit",
        INT,
        10,
        "The largest share.delivery.count.limit that a group may set.",
        at_least=5,
        at_most=25,
    ),
    obeyed(
        "group.share.max.heartbeat.interval.ms",
        INT,
        15_000,
        "The largest share.heartbeat.interval.ms that a group may set.",
        at_least=1,
    ),
    obeyed(
        "group.share.max.partition.max.record.locks",
        INT,
        4_000,
        "The largest share.partition.max.record.locks that a group may set.",
        at_least=2_000,
        at_most=10_000,
    ),
    obeyed(
        "group.share.max.record.lock.duration.ms",
        INT,
        60_000,
        "The largest share.record.lock.duration.ms that a group may set.",
        at_least=30_000,
        at_most=3_600_000,
    ),
    obeyed(
        "group.share.max.session.timeout.ms",
        INT,
        60_000,
        "The largest share.session.timeout.ms that a group may set.",
        at_least=1,
    ),
    obeyed(
        "group.share.max.share.sessions",
        INT,
        2_000,
        "The most share sessions on a broker; a member of a share group has one on each broker from which it reads.",
        at_least=1,
    ),
    obeyed("group.share.max.size", INT, 200, "The most members of one share group.", at_least=1, at_most=1_000),
    obeyed(
        "group.share.min.assignment.interval.ms",
        INT,
        0,
        "The smallest share.assignment.interval.ms that a group may set.",
        at_least=0,
    ),
    obeyed(
        "group.share.min.delivery.count.limit",
        INT,
        2,
        "The smallest share.delivery.count.limit that a group may set.",
        at_least=2,
        at_most=5,
    ),
    obeyed(
        "group.share.min.heartbeat.interval.ms",
        INT,
        5_000,
        "The smallest share.heartbeat.interval.ms that a group may set.",
        at_least=1,
    ),
    obeyed(
        "group.share.min.partition.max.record.locks",
        INT,
        100,
        "The smallest share.partition.max.record.locks that a group may set.",
        at_least=100,
        at_most=2_000,
    ),
    obeyed(
        "group.share.min.record.lock.duration.ms",
        INT,
        15_000,
        "The smallest share.record.lock.duration.ms that a group may set.",
        at_least=1_000,
        at_most=30_000,
    ),
    obeyed(
        "group.share.min.session.timeout.ms",
        INT,
        45_000,
        "The smallest share.session.timeout.ms that a group may set.",
        at_least=1,
    ),
    obeyed(
        "group.share.partition.max.record.locks",
        INT,
        2_000,
        "The default of a group's share.partition.max.record.locks.",
        at_least=100,
        at_most=10_000,
    ),
    without_effect(
        "group.share.persister.class.name",
        STRING,
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        SHARES_IN_THE_LOG,
        internal=True,
    ),
    obeyed(
        "group.share.record.lock.duration.ms",
        INT,
        30_000,
        "The default of a group's share.record.lock.duration.ms.",
        at_least=1_000,
        at_most=3_600_000,
    ),
    obeyed(
        "group.share.session.timeout.ms", INT, 45_000, "The default of a group's share.session.timeout.ms.", at_least=1
    ),
    without_effect(
        "group.streams.assignment.interval.ms", INT, 1_000, NO_STREAMS_GROUPS, at_least=0, update=CLUSTER_WIDE
    ),
    without_effect("group.streams.heartbeat.interval.ms", INT, 5_000, NO_STREAMS_GROUPS, at_least=1),
    without_effect("group.streams.initial.rebalance.delay.ms", INT, 3_000, NO_STREAMS_GROUPS, at_least=0),
    without_effect("group.streams.max.assignment.interval.ms", INT, 15_000, NO_STREAMS_GROUPS, at_least=0),
    without_effect("group.streams.max.heartbeat.interval.ms", INT, 15_000, NO_STREAMS_GROUPS, at_least=1),
    without_effect("group.streams.max.session.timeout.ms", INT, 60_000, NO_STREAMS_GROUPS, at_least=1),
    without_effect("group.streams.max.size", INT, INT_MAX, NO_STREAMS_GROUPS, at_least=1),
    without_effect("group.streams.max.standby.replicas", INT, 2, NO_STREAMS_GROUPS, at_least=0),
    without_effect("group.streams.min.assignment.interval.ms", INT, 0, NO_STREAMS_GROUPS, at_least=0),
    without_effect("group.streams.min.heartbeat.interval.ms", INT, 5_000, NO_STREAMS_GROUPS, at_least=1),
    without_effect("group.streams.min.session.timeout.ms", INT, 45_000, NO_STREAMS_GROUPS, at_least=1),
    without_effect("group.streams.num.standby.replicas", INT, 0, NO_STREAMS_GROUPS, at_least=0),
    without_effect("group.streams.session.timeout.ms", INT, 45_000, NO_STREAMS_GROUPS, at_least=1),
    without_effect("offsets.commit.timeout.ms", INT, 5_000, COORDINATOR_ON_THE_LOOP, at_least=1),
    without_effect("offsets.load.buffer.size", INT, 5_242_880, COORDINATOR_ON_THE_LOOP, at_least=1),
    without_effect("offsets.topic.compression.codec", INT, 0, COORDINATOR_ON_THE_LOOP),
    without_effect("share.coordinator.append.linger.ms", INT, -1, SHARES_IN_THE_LOG, at_least=-1),
    without_effect(
        "share.coordinator.cached.buffer.max.bytes",
        INT,
        1_048_588,
        SHARES_IN_THE_LOG,
        at_least=524_288,
        update=CLUSTER_WIDE,
    ),
    without_effect(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        INT,
        300_000,
        SHARES_IN_THE_LOG,
        at_least=1,
        internal=True,
    ),
    without_effect("share.coordinator.load.buffer.size", INT, 5_242_880, SHARES_IN_THE_LOG, at_least=1),
    without_effect(
        "share.coordinator.snapshot.update.records.per.snapshot", INT, 500, SHARES_IN_THE_LOG, at_least=0, at_most=500
    ),
    without_effect("share.coordinator.state.topic.compression.codec", INT, 0, SHARES_IN_THE_LOG),
    without_effect("share.coordinator.state.topic.min.isr", SHORT, 2, SHARES_IN_THE_LOG, at_least=1),
    without_effect("share.coordinator.state.topic.num.partitions", INT, 50, SHARES_IN_THE_LOG, at_least=1),
    without_effect(
        "share.coordinator.state.topic.prune.interval.ms", INT, 300_000, SHARES_IN_THE_LOG, at_least=1, internal=True
    ),
    without_effect("share.coordinator.state.topic.replication.factor", SHORT, 3, SHARES_IN_THE_LOG, at_least=1),
    without_effect("share.coordinator.state.topic.segment.bytes", INT, 104_857_600, SHARES_IN_THE_LOG, at_least=1),
    without_effect("share.coordinator.threads", INT, 1, SHARES_IN_THE_LOG, at_least=1),
    without_effect("share.coordinator.write.timeout.ms", INT, 5_000, SHARES_IN_THE_LOG, at_least=1),
    without_effect("share.fetch.purgatory.purge.interval.requests", INT, 1_000, SHARES_IN_THE_LOG),
    without_effect(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, NO_TRANSACTIONS, at_least=1
    ),
    without_effect("transaction.max.timeout.ms", INT, 900_000, NO_TRANSACTIONS, at_least=1),
    without_effect("transaction.partition.verification.enable", BOOLEAN, True, NO_TRANSACTIONS, update=CLUSTER_WIDE),
    without_effect(
        "transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, NO_TRANSACTIONS, at_least=1
    ),
    without_effect("transaction.state.log.load.buffer.size", INT, 5_242_880, NO_TRANSACTIONS, at_least=1),
    without_effect("transaction.state.log.min.isr", INT, 2, NO_TRANSACTIONS, at_least=1),
    without_effect("transaction.state.log.num.partitions", INT, 50, NO_TRANSACTIONS, at_least=1),
    without_effect("transaction.state.log.replication.factor", SHORT, 3, NO_TRANSACTIONS, at_least=1),
    without_effect("transaction.state.log.segment.bytes", INT, 104_857_600, NO_TRANSACTIONS, at_least=1),
    without_effect("transactional.id.expiration.ms", INT, 604_800_000, NO_TRANSACTIONS, at_least=1),
)
