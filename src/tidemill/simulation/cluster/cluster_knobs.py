"""The fault rates and sizes of one run of a simulated cluster.  Most runs have some of the faults; none has all."""

from copy import copy
from dataclasses import dataclass, replace
from random import Random

from tidemill.storage.store import StoreOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterKnobs:
    """
    Probabilities are per second, and per broker if the fault affects one broker, unless a comment says otherwise.
    """

    brokers: int
    partitions: int
    duration_s: int
    producers: int  # the number of producers per partition
    in_flight: int
    acks: int  # 1 only for control runs, in which the cluster may lose records that exist only on the leader
    pause_s: float  # mean time between two batches from a producer
    delay_us: int
    tail: float  # the fraction of messages that take a hundred times as long
    sync_us: int
    clock_rate: float  # each clock runs faster or slower by up to this fraction
    kill: float
    power: float
    power_of_all: float
    crash_midway: float  # the process ends, or the power fails, in the middle of a block, a checkpoint or a recovery
    crash_in_recovery: float  # the process ends, or the power fails, soon after a start; per start
    lasting_pages: float  # the fraction of power losses in which no data is lost
    pause: float
    clock_jump: float
    disk_full: float
    failed_sync: float
    slow_disk: float
    stalled_disk: float
    partition: float  # a network partition begins; per second, for the whole cluster
    lost_link: float  # a connection is lost; per second, for the whole cluster
    transfer_leadership: float  # the broker transfers the leadership of some of its shards, each with probability 0.5
    stop: float  # the broker stops cleanly, and is started again later
    wipe: float  # the disk is lost, and the broker returns under the same broker id
    rot: float  # a bit is flipped in a segment or in the journal
    administration_s: float  # mean time between administrative steps (topics, deletions of records, elections); 0: none
    options: StoreOptions
    leader_isolation: float  # the fraction of network partitions that isolate a leader
    client_isolation: float  # a client loses contact with one broker; per second, for the whole cluster
    roll_ms: int  # the interval at which partitions begin a new segment; 0: never
    keys: int = 0  # the number of keys of each producer's records, of which some have none; 0: no record has a key

    @classmethod
    def draw(cls, random: Random, brokers: int | None = None) -> "ClusterKnobs":
        some = random.choice
        count = some((1, 2, 3, 3, 3, 5)) if brokers is None else brokers
        partitions, producers = some((1, 2, 4)), some((1, 1, 2))
        journal = some((64, 256, 1024)) << 10
        beside = copy(random)  # a copy, so that random values for newer knobs do not change later values from `random`
        return cls(
            brokers=count,
            partitions=partitions,
            duration_s=some((3, 6, 12)),
            producers=producers,
            in_flight=some((1, 2, 5)),
            acks=-1,
            pause_s=some((0.02, 0.1, 0.3)) * partitions * producers / 2,
            delay_us=some((100, 1_000, 10_000)),
            tail=some((0.0, 0.0, 0.02)),
            sync_us=some((200, 2_000, 20_000)),
            clock_rate=some((0.0, 0.05)),
            kill=some((0.0, 0.05, 0.3)),
            power=some((0.0, 0.05, 0.2)),
            power_of_all=some((0.0, 0.0, 0.1)),
            crash_midway=some((0.0, 0.0, 0.3)),
            crash_in_recovery=some((0.0, 0.0, 0.3)),
            lasting_pages=some((0.0, 0.3)),
            pause=some((0.0, 0.0, 0.1)),
            clock_jump=some((0.0, 0.0, 0.2)),
            disk_full=some((0.0, 0.0, 0.0, 0.1)),
            failed_sync=some((0.0, 0.0, 0.05)),
            slow_disk=some((0.0, 0.0, 0.1)),
            stalled_disk=some((0.0, 0.0, 0.05)),
            partition=some((0.0, 0.0, 0.1, 0.2)),
            lost_link=some((0.0, 0.0, 0.3)),
            transfer_leadership=some((0.0, 0.1, 0.3)),
            stop=some((0.0, 0.0, 0.1)),
            wipe=some((0.0, 0.0, 0.1)),
            rot=some((0.0, 0.0, 0.0, 0.1)),
            administration_s=some((0.0, 0.5, 2.0)),
            options=StoreOptions(
                journal_first_bytes=journal,
                journal_file_bytes=journal,
                journal_bytes_max=4 * journal,
                block_bytes_max=min(some((16, 64, 1024)) << 10, journal // 4),  # a larger block would never fit
                cache_bytes_max=some((0, 16 << 10, 1 << 20)),
                checkpoint_bytes=some((1, 2)) * journal // 2,
                tail_entries=(tail := some((1, 8, 32, 256))),
                absent_ms_max=10_000 if tail == 256 else 0,  # otherwise, brokers that come back need installs
            ),
            leader_isolation=beside.choice((0.0, 0.5, 1.0)),
            client_isolation=beside.choice((0.0, 0.0, 0.2)),
            roll_ms=beside.choice((0, 0, 20, 500)),
        )

    def without_faults(self) -> "ClusterKnobs":
        """Return these knobs with every fault rate set to zero."""
        faults = (
            "kill",
            "power",
            "power_of_all",
            "crash_midway",
            "crash_in_recovery",
            "pause",
            "clock_jump",
            "disk_full",
        )
        more = ("failed_sync", "slow_disk", "stalled_disk", "partition", "lost_link", "tail")
        newer = (
            "transfer_leadership",
            "stop",
            "wipe",
            "rot",
            "administration_s",
            "leader_isolation",
            "client_isolation",
        )
        return replace(self, **dict.fromkeys((*faults, *more, *newer), 0.0))  # type: ignore[arg-type]
