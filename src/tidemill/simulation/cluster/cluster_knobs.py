"""What one run of a simulated cluster draws: most runs have some of the faults, none has all of them."""

from copy import copy
from dataclasses import dataclass, replace
from random import Random

from tidemill.storage.store import StoreOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterKnobs:
    """Probabilities are those of one second, and of one broker where a broker suffers."""

    brokers: int
    partitions: int
    duration_s: int
    producers: int  # of each partition
    in_flight: int
    acks: int  # 1 is for controls: what a leader alone has may be lost
    pause_s: float  # of a producer between batches, on average
    delay_us: int
    tail: float  # of what is sent, this share takes a hundred times as long
    sync_us: int
    clock_rate: float  # clocks run up to so much faster or slower
    kill: float
    power: float
    power_of_all: float
    cut: float  # the power goes in the middle of something: of a block, of a checkpoint, of recovery
    cut_in_recovery: float  # of a start
    lasting_pages: float  # of the power losses, this share loses nothing
    pause: float
    clock_jump: float
    disk_full: float
    failed_sync: float
    slow_disk: float
    stalled_disk: float
    partition: float  # a second
    lost_link: float  # a second
    transfer_leadership: float  # of what a broker leads
    stop: float  # a clean one
    wipe: float  # of a disk, whose broker comes back under the same number
    rot: float  # of a byte in a segment, or in the journal
    administration_s: float  # between changes of topics, deletions of records and elections, on average; 0: none
    options: StoreOptions
    aimed: float  # of the cuts, this share takes a leader off
    client_cut_off: float  # from one broker, a second
    roll_ms: int  # a partition begins a segment so often; 0: never

    @classmethod
    def draw(cls, random: Random, brokers: int | None = None) -> "ClusterKnobs":
        some = random.choice
        count = some((1, 2, 3, 3, 3, 5)) if brokers is None else brokers
        partitions, producers = some((1, 2, 4)), some((1, 1, 2))
        journal = some((64, 256, 1024)) << 10
        beside = copy(random)  # takes nothing from it: the forks that it makes are the same, drawn or not
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
            cut=some((0.0, 0.0, 0.3)),
            cut_in_recovery=some((0.0, 0.0, 0.3)),
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
                block_bytes_max=min(some((16, 64, 1024)) << 10, journal // 4),  # a larger one would never find room
                cache_bytes_max=some((0, 16 << 10, 1 << 20)),
                checkpoint_bytes=some((1, 2)) * journal // 2,
                tail_entries=some((1, 8, 32, 256)),
            ),
            aimed=beside.choice((0.0, 0.5, 1.0)),
            client_cut_off=beside.choice((0.0, 0.0, 0.2)),
            roll_ms=beside.choice((0, 0, 20, 500)),
        )

    def without_faults(self) -> "ClusterKnobs":
        """For the loop and the clients alone."""
        faults = ("kill", "power", "power_of_all", "cut", "cut_in_recovery", "pause", "clock_jump", "disk_full")
        more = ("failed_sync", "slow_disk", "stalled_disk", "partition", "lost_link", "tail")
        newer = ("transfer_leadership", "stop", "wipe", "rot", "administration_s", "aimed", "client_cut_off")
        return replace(self, **dict.fromkeys((*faults, *more, *newer), 0.0))  # type: ignore[arg-type]
