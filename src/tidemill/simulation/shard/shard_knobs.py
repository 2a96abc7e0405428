"""The fault rates and sizes of one run of a simulated shard.  Most runs have some of the faults; none has all."""

from dataclasses import dataclass
from random import Random

from tidemill.raft.progress import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardKnobs:
    """Probabilities are per second, and per node if the fault affects one node, unless a comment says otherwise."""

    nodes: int  # the number of voters in the first membership
    spare: int  # the number of further nodes, which may become members
    duration_ms: int  # the time until the faults end
    drop: float  # the fraction of messages that are dropped
    duplicate: float  # the fraction of messages that are delivered twice
    delay_ms: int  # mean network delay of a message
    tail: float  # the fraction of messages that take fifty times as long
    crash: float
    pause: float
    partition: float
    slow_sync: float  # the fraction of syncs that take fifty times as long
    crash_in_sync: float  # the node crashes, and restarts within 400 ms; per sync of a block that holds a vote
    sync_ms: int  # mean duration of a sync
    change: float  # the leader changes the membership
    transfer: float  # the leader transfers leadership
    forget: float  # the node drops committed entries from memory, including entries that a follower still needs
    clock_rate: float  # each clock runs faster or slower by up to this fraction
    window: Window
    crash_in_install: float  # the node crashes, and restarts within 400 ms; per step of an install
    damage: float = 0.0  # a node loses entries from its files; a majority always remains undamaged
    full_ring: float = 0.0  # for a while, the node's journal accepts only votes and truncations

    @classmethod
    def draw(cls, random: Random) -> "ShardKnobs":
        some = random.choice
        return cls(
            nodes=some((3, 3, 3, 5, 5, 7)),
            spare=some((0, 0, 1, 2)),
            duration_ms=some((10_000, 20_000, 40_000)),
            drop=some((0.0, 0.0, 0.02, 0.1, 0.3)),
            duplicate=some((0.0, 0.0, 0.05, 0.3)),
            delay_ms=some((1, 5, 20, 100)),
            tail=some((0.0, 0.05)),
            crash=some((0.0, 0.02, 0.1, 0.4)),
            pause=some((0.0, 0.05)),
            partition=some((0.0, 0.05, 0.2)),
            slow_sync=some((0.0, 0.05, 0.3)),
            crash_in_sync=some((0.0, 0.0, 0.1, 0.5)),
            sync_ms=some((1, 5, 50)),
            change=some((0.0, 0.3, 1.0)),
            transfer=some((0.0, 0.1, 0.5)),
            forget=some((0.0, 0.2, 0.7)),
            clock_rate=some((0.0, 0.3)),
            window=some(
                (
                    Window(),
                    Window(messages_max=1),
                    Window(entries_max=1),
                    Window(messages_max=2, entries_max=2),
                    Window(entries_max=8),
                )
            ),
            crash_in_install=some((0.0, 0.0, 0.05, 0.2)),
        )
