"""Broker configuration keys that Kafka does not have, all with the prefix `tidemill.`."""

from typing import Final

from tidemill.model.config_key import ConfigKey, obeyed
from tidemill.model.config_types import ConfigType, ConfigValue

BOOLEAN, STRING, INT, LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
LIST, PASSWORD = ConfigType.LIST, ConfigType.PASSWORD

JOURNAL_BYTES_MIN: Final = 32 << 20  # two files of 16 MiB, because a ring with a single file could never free space
ROWS_MAX: Final = 200  # default limit on groups and on topics in `/metrics`: a slow scrape would block the event loop


def _key_problem(value: ConfigValue) -> str | None:
    return None if value else "an empty key does not protect the cluster; leave it out, or set a long random text"


TIDEMILL_KEYS: Final[tuple[ConfigKey, ...]] = (
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
)
