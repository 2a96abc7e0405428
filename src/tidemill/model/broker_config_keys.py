"""Broker configuration keys: identity, listeners, connections, topic defaults and machine resources."""

from typing import Final

from tidemill.model.config_key import JAVA, OWN_CONSENSUS, ConfigKey, Update, obeyed, refused, without_effect
from tidemill.model.config_types import INT_MAX, ConfigType, ConfigValue
from tidemill.model.topic_config_keys import NO_QUOTAS

BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
LONG = ConfigType.LONG
LIST = ConfigType.LIST
CLASS = ConfigType.CLASS
CLUSTER_WIDE = Update.CLUSTER_WIDE
ONE_LOOP: Final = "a broker runs on one event loop; to use more cores, run more brokers"
OWN_METRICS: Final = "metrics are served over HTTP, for Prometheus"


def _directory_problem(value: ConfigValue) -> str | None:
    if not isinstance(value, tuple) or len(value) != 1 or not value[0]:
        return "must name exactly one directory; to use more disks, run more brokers"
    return None


BROKER_KEYS: Final[tuple[ConfigKey, ...]] = (
    obeyed(
        "advertised.listeners",
        LIST,
        None,
        "The addresses that the broker announces to clients, one per listener, where they differ from `listeners`.",
    ),
    obeyed(
        "auto.create.topics.enable", BOOLEAN, True, "Whether a missing topic is created when a client refers to it."
    ),
    obeyed(
        "broker.id",
        INT,
        -1,
        "This broker's id, 0 or more.  -1 lets the broker choose one; the data directory keeps the choice.",
        at_least=-1,
    ),
    obeyed("broker.rack", STRING, None, "The rack or zone of this broker; announced to clients."),
    obeyed(
        "connections.max.idle.ms",
        LONG,
        600_000,
        "The broker closes a client connection that sent no request for this long.",
    ),
    obeyed(
        "default.replication.factor",
        INT,
        1,
        "The replication factor of a topic whose creator does not specify one.",
        at_least=1,
    ),
    obeyed("delete.topic.enable", BOOLEAN, True, "Whether clients may delete topics."),
    obeyed(
        "fetch.max.bytes",
        INT,
        57_671_680,
        "The most bytes of records in one Fetch response, whatever the client asks for.",
        at_least=1_024,
    ),
    obeyed(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name; only PLAINTEXT is implemented yet.",
    ),
    obeyed(
        "listeners",
        LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where clients connect: NAME://HOST:PORT, separated by commas; without a host, the loopback address.",
    ),
    obeyed(
        "log.dir", LIST, ("tidemill-data",), "The data directory, unless log.dirs is set.", check=_directory_problem
    ),
    obeyed("log.dirs", LIST, None, "The data directory; exactly one.", check=_directory_problem),
    obeyed(
        "max.connections",
        INT,
        INT_MAX,
        "The most client connections this broker holds at once; it closes further ones on arrival.",
        at_least=0,
    ),
    obeyed("max.connections.per.ip", INT, INT_MAX, "The most client connections one IP address may hold.", at_least=0),
    obeyed(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Exceptions to max.connections.per.ip: ADDRESS:COUNT, separated by commas.",
    ),
    obeyed(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1_000,
        "The most fetch sessions kept.  A further one replaces one unused for two minutes, or is not created.",
        at_least=0,
    ),
    obeyed(
        "max.request.partition.size.limit",
        INT,
        2_000,
        "The most partitions in one DescribeTopicPartitions response.",
        at_least=1,
    ),
    obeyed("node.id", INT, -1, "The same as broker.id.", at_least=-1),
    obeyed("num.partitions", INT, 8, "The partition count of a topic whose creator does not specify one.", at_least=1),
    obeyed(
        "queued.max.request.bytes",
        LONG,
        -1,
        "The most bytes of requests held in memory, over all connections; -1 means 256 MiB.",
        at_least=-1,
    ),
    obeyed(
        "socket.listen.backlog.size",
        INT,
        4_096,
        "How many connections may wait to be accepted.  Kafka's 50 delays clients that connect at once by a second.",
        at_least=1,
    ),
    obeyed(
        "socket.receive.buffer.bytes",
        INT,
        -1,
        "The receive buffer of a client's socket; with -1 the operating system sizes it as needed.",
        at_least=-1,
    ),
    obeyed(
        "socket.request.max.bytes",
        INT,
        104_857_600,
        "The largest request in bytes; the broker closes a connection that announces a larger one.",
        at_least=1,
    ),
    obeyed(
        "socket.send.buffer.bytes",
        INT,
        -1,
        "The send buffer of a client's socket; with -1 the operating system sizes it as needed.",
        at_least=-1,
    ),
    refused("config.providers", LIST, (), JAVA),
    refused("create.topic.policy.class.name", CLASS, None, JAVA),
    without_effect("background.threads", INT, 10, ONE_LOOP, at_least=1, update=CLUSTER_WIDE),
    without_effect("controlled.shutdown.enable", BOOLEAN, True, OWN_CONSENSUS),
    without_effect(
        "delete.records.purgatory.purge.interval.requests",
        INT,
        1,
        "a delayed request is woken when its data arrives, and holds no memory once it is answered",
    ),
    without_effect(
        "fetch.purgatory.purge.interval.requests",
        INT,
        1_000,
        "a delayed request is woken when its data arrives, and holds no memory once it is answered",
    ),
    without_effect("kafka.metrics.polling.interval.secs", INT, 10, OWN_METRICS, at_least=1),
    without_effect("kafka.metrics.reporters", LIST, (), OWN_METRICS),
    without_effect("max.connection.creation.rate", INT, INT_MAX, NO_QUOTAS, at_least=0, update=CLUSTER_WIDE),
    without_effect(
        "metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",), OWN_METRICS, update=CLUSTER_WIDE
    ),
    without_effect("metrics.num.samples", INT, 2, OWN_METRICS, at_least=1),
    without_effect("metrics.recording.level", STRING, "INFO", OWN_METRICS),
    without_effect("metrics.sample.window.ms", LONG, 30_000, OWN_METRICS, at_least=1),
    without_effect("num.io.threads", INT, 8, ONE_LOOP, at_least=1, update=CLUSTER_WIDE),
    without_effect("num.network.threads", INT, 3, ONE_LOOP, at_least=1, update=CLUSTER_WIDE),
    without_effect("num.recovery.threads.per.data.dir", INT, 2, ONE_LOOP, at_least=1, update=CLUSTER_WIDE),
    without_effect(
        "producer.purgatory.purge.interval.requests",
        INT,
        1_000,
        "a delayed request is woken when its data arrives, and holds no memory once it is answered",
    ),
    without_effect("queued.max.requests", INT, 500, ONE_LOOP, at_least=1),
    without_effect("request.timeout.ms", INT, 30_000, OWN_CONSENSUS),
    without_effect("socket.connection.setup.timeout.max.ms", LONG, 30_000, OWN_CONSENSUS),
    without_effect("socket.connection.setup.timeout.ms", LONG, 10_000, OWN_CONSENSUS),
    without_effect("telemetry.max.bytes", INT, 1_048_576, "client telemetry is not offered", at_least=1),
    without_effect("unstable.api.versions.enable", BOOLEAN, False, "only stable versions are offered", internal=True),
    without_effect(
        "unstable.feature.versions.enable", BOOLEAN, False, "only stable versions are offered", internal=True
    ),
)
