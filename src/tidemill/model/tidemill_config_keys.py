"""Broker configuration keys that Kafka does not have, all with the prefix `tidemill.`."""

from typing import Final

from tidemill.model.config_key import ConfigKey, Update, obeyed
from tidemill.model.config_types import ConfigType, ConfigValue

BOOLEAN, STRING, INT, LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
LIST, PASSWORD = ConfigType.LIST, ConfigType.PASSWORD
CLUSTER_WIDE = Update.CLUSTER_WIDE

JOURNAL_BYTES_MIN: Final = 32 << 20  # two files of 16 MiB, because a ring with a single file could never free space
ROWS_MAX: Final = 200  # default limit on groups and on topics in `/metrics`: a slow scrape would block the event loop


def _key_problem(value: ConfigValue) -> str | None:
    return None if value else "an empty key does not protect the cluster; leave it out, or set a long random text"


TIDEMILL_KEYS: Final[tuple[ConfigKey, ...]] = (
    obeyed(
        "tidemill.broker.return.ms",
        LONG,
        30_000,
        "How long a broker that was silent must be live without a gap until the cluster counts on it again.",
        at_least=0,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "tidemill.broker.silent.ms",
        LONG,
        60_000,
        "A broker that no live broker has heard for this long is recorded as silent.",
        at_least=1_000,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "tidemill.http.advertised",
        STRING,
        None,
        "The address of the HTTP listener for clients elsewhere: HOST:PORT; by default that of the listener. Requests "
        "that name another host are refused.",
    ),
    obeyed(
        "tidemill.http.listener",
        STRING,
        "127.0.0.1:9080",
        "Where the console, the API, health and metrics are served: HOST:PORT; port 0 picks a free one.",
    ),
    obeyed(
        "tidemill.http.token.file",
        STRING,
        None,
        "A file with the token that clients of the API on other machines send; without it, only clients on this "
        "machine are served.",
    ),
    obeyed(
        "tidemill.insecure.bind",
        BOOLEAN,
        False,
        "Whether listeners without encryption and authentication may be opened on addresses other than loopback.",
    ),
    obeyed(
        "tidemill.journal.bytes.max",
        LONG,
        1 << 30,
        "The most bytes of the journal's ring on disk; writes to a full ring wait for a checkpoint.",
        at_least=JOURNAL_BYTES_MIN,
    ),
    obeyed(
        "tidemill.cluster.key",
        PASSWORD,
        None,
        "The secret with which the brokers of a cluster authenticate each other; required where the peer listener is "
        "not on a loopback address.",
        check=_key_problem,
    ),
    obeyed(
        "tidemill.join",
        LIST,
        (),
        "Peer listeners (HOST:PORT) of brokers whose cluster this broker joins; without any, a broker on an empty "
        "directory creates a cluster.",
    ),
    obeyed(
        "tidemill.load.report.ms",
        LONG,
        10_000,
        "How often a broker tells the controller what it and its shards use. After a step, balance waits for figures "
        "that are newer by this.",
        at_least=500,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "tidemill.metrics.group.lags.max",
        INT,
        ROWS_MAX,
        "The most pairs of consumer group and topic whose lag `/metrics` shows one by one, the largest first; the "
        "others are summed up under the label `(other)`, and with 0 no lag is computed.  The same holds for the "
        "state of queues (pairs of share group and topic).",
        at_least=0,
    ),
    obeyed(
        "tidemill.metrics.topics.max",
        INT,
        ROWS_MAX,
        "The most topics that `/metrics` counts one by one, oldest first; the others share the label `(other)`, and "
        "with 0 no topic is counted.  Also the most queues (pairs of share group and topic) that it counts one by one.",
        at_least=0,
    ),
    obeyed(
        "tidemill.peer.advertised",
        STRING,
        None,
        "The HOST:PORT that this broker announces to other brokers, where it differs from `tidemill.peer.listener`.",
    ),
    obeyed(
        "tidemill.peer.listener",
        STRING,
        "127.0.0.1:9070",
        "Where other brokers of the cluster connect: HOST:PORT; port 0 picks a free one.",
    ),
    obeyed(
        "tidemill.rebalance.disk.percent.max",
        INT,
        80,
        "Replicas move away from a disk that is fuller than this percentage, and no replica moves to a disk that would "
        "be fuller with it.",
        at_least=1,
        at_most=95,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "tidemill.rebalance.enable",
        BOOLEAN,
        True,
        "Whether the cluster moves replicas by itself: away from brokers that are gone, drained or full, and for "
        "balance.",
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "tidemill.replica.move.bytes.per.second",
        LONG,
        100 << 20,
        "The most bytes per second that a broker sends to copy replicas to other brokers. A copy gets at least twice "
        "the rate at which its shard is written to, because it would never end otherwise.",
        at_least=1,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "tidemill.replica.move.concurrent",
        INT,
        4,
        "The most replicas that are copied to one broker, and from one broker, at the same time.",
        at_least=1,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "tidemill.replica.move.concurrent.cluster",
        INT,
        50,
        "The most replicas that are copied in the whole cluster at the same time.",
        at_least=1,
        update=CLUSTER_WIDE,
    ),
    obeyed(
        "tidemill.replica.replacement.delay.ms",
        LONG,
        300_000,
        "A broker that is silent for this long is gone: its replicas are placed on other brokers. If more than 10 % of "
        "the brokers, or a whole rack, are silent, an operator has to decide.",
        at_least=1_000,
        update=CLUSTER_WIDE,
    ),
)
