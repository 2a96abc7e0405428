"""The broker's keys that Kafka does not know: ours, all under `tidemill.`."""

from typing import Final

from tidemill.model.config_key import ConfigKey, obeyed, refused
from tidemill.model.config_types import ConfigType

BOOLEAN, STRING, LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LONG
LIST, PASSWORD = ConfigType.LIST, ConfigType.PASSWORD

JOURNAL_BYTES_MIN: Final = 32 << 20  # the first journal file has 16 MiB, and a ring of one could never be freed
ONE_BROKER: Final = "clusters of several brokers are not built yet"

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
    refused("tidemill.join", LIST, (), ONE_BROKER),
    refused("tidemill.peer.listener", STRING, None, ONE_BROKER),
    refused("tidemill.cluster.key", PASSWORD, None, ONE_BROKER),
)
