"""Lists what is degraded on a broker, for `/health/ready`: problems, each with a name, a count and a sentence.

A degraded broker still serves, so it stays ready: sending its clients elsewhere would make what still works
unavailable.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tidemill.app.partition_health import partition_health
from tidemill.broker.broker import Broker
from tidemill.model.broker_id import BrokerId

# The disk is nearly full if fewer bytes are free than this multiple of the number below which writes are refused.  The
# product is at least 1 GiB.
NEARLY_FULL: Final = 4
CLOCK_OFF_MS: Final = 1_000  # a clock that differs by more from the median of all clocks is a problem


def waiting_to_join(join: Sequence[str]) -> dict[str, Any]:
    """Return the problem of a process that has no broker yet, because it waits to be admitted through `join`."""
    return {
        "problem": "waiting_to_join",
        "count": 1,
        "detail": f"no broker of the cluster has admitted this one through tidemill.join={','.join(join)}: start the "
        "brokers there; the event `waiting to join` in the log of this broker has the reason",
    }


def problems(broker: Broker) -> list[dict[str, Any]]:
    """Return the problems, worst first; `docs/http.md` documents the fields."""
    found = [*_of_partitions(broker), *_of_broker(broker)]
    return [{"problem": name, "count": int(count), "detail": detail} for name, count, detail in found if count]


def _of_partitions(broker: Broker) -> Iterator[tuple[str, int, str]]:
    health = partition_health(broker)
    yield (
        "leaderless_partitions",
        health.leaderless,
        "have no leader that this broker hears, so they are neither written nor read: start the missing brokers; "
        "if none is missing and this lasts, a majority of their replicas has lost its disk",
    )
    yield (
        "under_min_insync_partitions",
        health.under_min_insync,
        "led by this broker have fewer replicas in sync than min.insync.replicas, so writes with acks=all fail: "
        "start the missing brokers",
    )
    yield (
        "under_replicated_partitions",
        health.under_replicated,
        "led by this broker lack replicas in sync: start the missing brokers, or wait until they have caught up",
    )
    yield (
        "damaged_partitions",
        health.damaged,
        "have damaged files on this broker; the other replicas repair them, see the event `shard damaged`",
    )


def _of_broker(broker: Broker) -> Iterator[tuple[str, int, str]]:
    free, needed = broker.metrics.disk_free_bytes, broker.metrics.disk_needed_bytes
    yield (
        "disk_full",
        broker.metrics.is_disk_full,
        f"writes are refused: {free} B are free on the disk of log.dirs, {needed} are needed: "
        "free some, or lower retention",
    )
    yield (
        "disk_nearly_full",
        not broker.metrics.is_disk_full and free < NEARLY_FULL * needed,
        f"{free} B are free on the disk of log.dirs, and below {needed} writes are refused: "
        "free some, or lower retention",
    )
    yield (
        "journal_stalled",
        not broker.is_syncing,
        "the disk of log.dirs has not completed a write of the journal for a second: check the disk",
    )
    yield (
        "no_quorum_contact",
        not broker.cluster.has_quorum_contact,
        "this broker does not hear a majority of the voters of the cluster's metadata: check the network and the "
        "other brokers",
    )
    wrong = _wrong_clocks(broker)
    yield (
        "wrong_clocks",
        len(wrong),
        f"of brokers differ by more than {CLOCK_OFF_MS} ms from the median of all clocks that this broker hears: "
        + ", ".join(f"broker {broker_id} by {off_ms:+} ms" for broker_id, off_ms in wrong.items())
        + "; synchronize their clocks, for example with chrony",
    )
    yield (
        "draining",
        broker.drain_leadership.is_draining,
        "this broker transfers its leadership to other brokers, because "
        + (
            f"an operator drains it; `tidemill cluster undrain {broker.broker_id}` ends that"
            if broker.drain_leadership.is_drained
            else "its metadata is stale, its disk is full, or it does not serve clients"
        ),
    )


def _wrong_clocks(broker: Broker) -> dict[BrokerId, int]:
    """
    Return the brokers whose wall clocks are wrong, this one included, and by how many milliseconds.

    They are compared with the median and not with the clock of this broker, which may be the wrong one.  Of two clocks,
    the one that is behind is the median, as in `timer/release_clock`.
    """
    offsets = {broker.broker_id: 0}
    offsets |= {voter.broker_id: off_ms for voter, off_ms in broker.cluster.clocks.offsets().items()}
    median = sorted(offsets.values())[(len(offsets) - 1) // 2]
    return {
        broker_id: off_ms - median
        for broker_id, off_ms in sorted(offsets.items())
        if abs(off_ms - median) > CLOCK_OFF_MS
    }
