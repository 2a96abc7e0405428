"""The state of a broker as the metadata log records it: whether it is present, and whether it is being drained."""

from enum import IntEnum


class Presence(IntEnum):
    """Whether the cluster counts on a broker (`rebalance/presence` has the transitions)."""

    ACTIVE = 0
    SILENT = 1  # no live broker hears it; it is expected back
    GONE = 2  # its replicas are planned elsewhere; its disk keeps them until their shards release them


class Drain(IntEnum):
    """What an operator wants a broker to give up."""

    NONE = 0
    LEADERS = 1  # maintenance: its replicas stay, and others lead
    ALL = 2  # its replicas are moved away
