"""Policy: the limits of re-placement.  Some are configuration keys; the others are constants with one reason each."""

from dataclasses import dataclass

from tidemill.model.config_resolution import BrokerLayers, broker_flag, broker_int


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    is_enabled: bool = True

    # Presence.
    silent_after_ms: int = 60_000
    gone_after_ms: int = 300_000
    active_after_ms: int = 30_000  # live without a gap: a broker that flaps stays away
    bulk_percent: int = 10  # more brokers than this, and more than one, are not replaced without an operator

    # Copies.
    move_bytes_per_s: int = 100 << 20  # sent by one broker
    broker_moves_max: int = 4  # to one broker, and from one broker
    cluster_moves_max: int = 50
    copied_percent: int = 90  # a newcomer that has more stays, although the former member is back
    untold_after_ms: int = 10_000  # elections and reports take less, so that a shard has lost its majority by then

    # Disks.
    disk_percent_max: int = 80  # above, a disk is emptied; no step fills one beyond it
    newcomer_disk_percent_max: int = 95  # above, a copy that has begun goes to another broker

    # Balance.
    figures_after_ms: int = 10_000  # until all have reported; figures count if they are so much newer than a step
    begin_percent: int = 10  # off the mean
    end_percent: int = 5
    count_floor: int = 2  # shards; smaller differences are not worth a move
    bytes_floor: int = 1 << 30
    balance_pause_ms: int = 3_600_000  # for a shard that COUNT or BYTES moved
    leader_gain: int = 100  # per mille of a core by which the busiest broker must be relieved
    leader_pause_ms: int = 600_000  # for a shard that LEADER moved
    leaders_percent: int = 10  # of a broker's leaders may leave it within a minute


def move_bytes_per_s(layers: BrokerLayers) -> int:
    """Return the most bytes a second that a broker with this configuration sends to copy replicas."""
    keys = ("tidemill.replica.move.bytes.per.second", "leader.replication.throttled.rate")
    return min(broker_int(layers, key) for key in keys)


def policy_of(layers: BrokerLayers) -> Policy:
    """Return the policy that the configuration of the controller's broker sets."""
    return Policy(
        is_enabled=broker_flag(layers, "tidemill.rebalance.enable"),
        silent_after_ms=broker_int(layers, "tidemill.broker.silent.ms"),
        gone_after_ms=broker_int(layers, "tidemill.replica.replacement.delay.ms"),
        active_after_ms=broker_int(layers, "tidemill.broker.return.ms"),
        move_bytes_per_s=move_bytes_per_s(layers),
        broker_moves_max=broker_int(layers, "tidemill.replica.move.concurrent"),
        cluster_moves_max=broker_int(layers, "tidemill.replica.move.concurrent.cluster"),
        figures_after_ms=broker_int(layers, "tidemill.load.report.ms"),
        disk_percent_max=broker_int(layers, "tidemill.rebalance.disk.percent.max"),
    )
