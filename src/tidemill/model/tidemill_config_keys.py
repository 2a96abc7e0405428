"""The broker's keys that Kafka does not know: ours, all under `tidemill.`."""

from typing import Final

from tidemill.model.config_key import ConfigKey, obeyed
from tidemill.model.config_types import ConfigType, ConfigValue

BOOLEAN, STRING, LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LONG
LIST, PASSWORD = ConfigType.LIST, ConfigType.PASSWORD

JOURNAL_BYTES_MIN: Final = 32 << 20  # the first journal file has 16 MiB, and a ring of one could never be freed


def _key_problem(value: ConfigValue) -> str | None:
    return None if value else "an empty key keeps nobody out; leave it out, or set a long random text"


TIDEMILL_KEYS: Final[tuple[ConfigKey, ...]] = (
    obeyed(
        "tidemill.http.listener",
        STRING,
        "127.0.0.1:9080",
        "Where health, readiness and metrics are served: HOST:PORT; port 0 takes a free one.",
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
        "The most bytes the journal's ring may have on disk; a full ring waits for a checkpoint.",
        at_least=JOURNAL_BYTES_MIN,
    ),
    obeyed(
        "tidemill.cluster.key",
        PASSWORD,
        None,
        "What the brokers of a cluster prove to each other that they know; needed where the peer listener is not on "
        "loopback.",
        check=_key_problem,
    ),
    obeyed(
        "tidemill.join",
        LIST,
        (),
        "Peer listeners of brokers whose cluster this one joins, HOST:PORT each; without any, an empty directory "
        "founds a cluster.",
    ),
    obeyed(
        "tidemill.peer.advertised",
        STRING,
        None,
        "The HOST:PORT that other brokers are told, where it differs from `tidemill.peer.listener`.",
    ),
    obeyed(
        "tidemill.peer.listener",
        STRING,
        "127.0.0.1:9093",
        "Where other brokers of the cluster connect: HOST:PORT; port 0 takes a free one.",
    ),
)
