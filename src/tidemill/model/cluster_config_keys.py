"""Broker configuration keys for Kafka's controllers, replication and quotas.

Most of these keys have no effect or are refused, because Tidemill has its own consensus implementation.
"""

from typing import Final

from tidemill.model.config_key import JAVA, OWN_CONSENSUS, ConfigKey, Update, obeyed, refused, without_effect
from tidemill.model.config_types import LONG_MAX, ConfigType
from tidemill.model.topic_config_keys import NO_QUOTAS

BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
LONG = ConfigType.LONG
LIST = ConfigType.LIST
CLASS = ConfigType.CLASS
CLUSTER_WIDE = Update.CLUSTER_WIDE
NO_KRAFT: Final = (
    "Tidemill's brokers elect their controller among themselves, without controller listeners or quorum settings"
)

CLUSTER_KEYS: Final[tuple[ConfigKey, ...]] = (
    refused("alter.config.policy.class.name", CLASS, None, JAVA),
    refused("client.quota.callback.class", CLASS, None, JAVA),
    refused("controller.listener.names", LIST, None, NO_KRAFT),
    refused("controller.quorum.auto.join.enable", BOOLEAN, False, NO_KRAFT),
    refused("controller.quorum.bootstrap.servers", LIST, (), NO_KRAFT),
    refused("controller.quorum.voters", LIST, (), NO_KRAFT),
    refused("cordoned.log.dirs", LIST, (), "there is one data directory, which cannot be cordoned"),
    refused("early.start.listeners", LIST, None, NO_KRAFT),
    without_effect(
        "inter.broker.listener.name", STRING, None, "brokers connect to each other on a listener of their own"
    ),
    refused("metadata.log.dir", STRING, None, "the metadata log is in the data directory, like every other log"),
    refused("process.roles", LIST, None, "every broker can also be the controller, so there are no roles to choose"),
    refused("replica.selector.class", STRING, None, JAVA),
    without_effect("alter.log.dirs.replication.quota.window.num", INT, 11, NO_QUOTAS, at_least=1),
    without_effect("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, NO_QUOTAS, at_least=1),
    obeyed(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "Whether leadership of a shard is transferred back to its preferred (first) replica.",
    ),
    without_effect("broker.heartbeat.interval.ms", INT, 2_000, OWN_CONSENSUS),
    without_effect("broker.session.timeout.ms", INT, 9_000, OWN_CONSENSUS),
    without_effect(
        "controller.performance.always.log.threshold.ms", LONG, 2_000, OWN_CONSENSUS, at_least=0, internal=True
    ),
    without_effect("controller.performance.sample.period.ms", LONG, 60_000, OWN_CONSENSUS, at_least=100, internal=True),
    without_effect("controller.quorum.append.linger.ms", INT, 25, OWN_CONSENSUS, at_least=0),
    without_effect("controller.quorum.election.backoff.max.ms", INT, 1_000, OWN_CONSENSUS, at_least=0),
    without_effect("controller.quorum.election.timeout.ms", INT, 1_000, OWN_CONSENSUS, at_least=0),
    without_effect("controller.quorum.fetch.max.bytes", INT, 1_048_576, OWN_CONSENSUS, at_least=1),
    without_effect("controller.quorum.fetch.snapshot.max.bytes", INT, 1_048_576, OWN_CONSENSUS, at_least=1),
    without_effect("controller.quorum.fetch.timeout.ms", INT, 2_000, OWN_CONSENSUS, at_least=0),
    without_effect("controller.quorum.request.timeout.ms", INT, 2_000, OWN_CONSENSUS, at_least=0),
    without_effect("controller.quorum.retry.backoff.ms", INT, 20, OWN_CONSENSUS, at_least=0),
    without_effect("controller.quota.window.num", INT, 11, NO_QUOTAS, at_least=1),
    without_effect("controller.quota.window.size.seconds", INT, 1, NO_QUOTAS, at_least=1),
    without_effect("controller.socket.timeout.ms", INT, 30_000, OWN_CONSENSUS),
    without_effect(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "copies of replicas are limited where they are sent, by `leader.replication.throttled.rate`",
        at_least=0,
        update=CLUSTER_WIDE,
    ),
    without_effect("initial.broker.registration.timeout.ms", INT, 60_000, OWN_CONSENSUS),
    without_effect("internal.metadata.delete.delay.millis", LONG, 60_000, OWN_CONSENSUS, internal=True),
    without_effect("internal.metadata.log.segment.bytes", INT, None, OWN_CONSENSUS, internal=True),
    without_effect("internal.metadata.max.batch.size.in.bytes", INT, 8_388_608, OWN_CONSENSUS, internal=True),
    obeyed(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often the cluster checks for shards that are not led by their preferred (first) replica.",
        at_least=1,
    ),
    obeyed(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "Kafka's name for `tidemill.replica.move.bytes.per.second`: the lower of the two limits the bytes per second "
        "that a broker sends to copy replicas, whichever replicas are listed as throttled.",
        at_least=0,
        update=CLUSTER_WIDE,
    ),
    without_effect("metadata.log.max.record.bytes.between.snapshots", LONG, 20_971_520, OWN_CONSENSUS, at_least=1),
    without_effect("metadata.log.max.snapshot.interval.ms", LONG, 3_600_000, OWN_CONSENSUS, at_least=0),
    without_effect("metadata.log.segment.bytes", INT, 1_073_741_824, OWN_CONSENSUS, at_least=8_388_608),
    without_effect("metadata.log.segment.ms", LONG, 604_800_000, OWN_CONSENSUS),
    without_effect("metadata.max.idle.interval.ms", INT, 500, OWN_CONSENSUS, at_least=0),
    without_effect("metadata.max.retention.bytes", LONG, 104_857_600, OWN_CONSENSUS),
    without_effect("metadata.max.retention.ms", LONG, 604_800_000, OWN_CONSENSUS),
    without_effect("num.replica.alter.log.dirs.threads", INT, None, OWN_CONSENSUS),
    without_effect("num.replica.fetchers", INT, 1, OWN_CONSENSUS, at_least=1, update=CLUSTER_WIDE),
    without_effect("quota.window.num", INT, 11, NO_QUOTAS, at_least=1),
    without_effect("quota.window.size.seconds", INT, 1, NO_QUOTAS, at_least=1),
    without_effect(
        "replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, NO_QUOTAS, at_least=0, update=CLUSTER_WIDE
    ),
    without_effect("replica.fetch.backoff.ms", INT, 1_000, OWN_CONSENSUS, at_least=0),
    without_effect("replica.fetch.max.bytes", INT, 1_048_576, OWN_CONSENSUS, at_least=0),
    without_effect("replica.fetch.min.bytes", INT, 1, OWN_CONSENSUS),
    without_effect("replica.fetch.response.max.bytes", INT, 10_485_760, OWN_CONSENSUS, at_least=0),
    without_effect("replica.fetch.wait.max.ms", INT, 500, OWN_CONSENSUS),
    without_effect("replica.high.watermark.checkpoint.interval.ms", LONG, 5_000, OWN_CONSENSUS),
    without_effect("replica.lag.time.max.ms", LONG, 30_000, OWN_CONSENSUS),
    without_effect("replica.socket.receive.buffer.bytes", INT, 65_536, OWN_CONSENSUS),
    without_effect("replica.socket.timeout.ms", INT, 30_000, OWN_CONSENSUS),
    without_effect("replication.quota.window.num", INT, 11, NO_QUOTAS, at_least=1),
    without_effect("replication.quota.window.size.seconds", INT, 1, NO_QUOTAS, at_least=1),
    without_effect("server.max.startup.time.ms", LONG, LONG_MAX, OWN_CONSENSUS, at_least=0, internal=True),
    without_effect("unclean.leader.election.interval.ms", LONG, 300_000, OWN_CONSENSUS, at_least=1, internal=True),
)
