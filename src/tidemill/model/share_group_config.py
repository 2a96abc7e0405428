"""A share group's configuration as plain values, for its coordinator and for the leaders of its partitions."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

from tidemill.model import errors
from tidemill.model.back_off import NO_BACK_OFF, BackOff, parse_back_off
from tidemill.model.config_key import parse
from tidemill.model.config_keys import GROUP_KEYS
from tidemill.model.config_resolution import BrokerLayers, broker_int, resolve_group
from tidemill.model.errors import KafkaError
from tidemill.model.offset_reset import LATEST, OffsetReset, parse_offset_reset

SESSION: Final = "share.session.timeout.ms"
HEARTBEAT: Final = "share.heartbeat.interval.ms"
ASSIGNMENT: Final = "share.assignment.interval.ms"
LOCK: Final = "share.record.lock.duration.ms"
DELIVERIES: Final = "share.delivery.count.limit"
LOCKS: Final = "share.partition.max.record.locks"
RENEWAL: Final = "share.renew.acknowledge.enable"
BACK_OFF: Final = "tidemill.share.backoff"
TTL: Final = "tidemill.share.ttl.ms"
TRACKED: Final = "tidemill.share.max.tracked"
ORDER: Final = "tidemill.share.order"
MODE: Final = "tidemill.share.mode"
LOOK_AHEAD: Final = "tidemill.share.lookahead"
PRIORITY: Final = "tidemill.share.priority"
FAILOVER_WAIT: Final = "tidemill.share.failover.wait"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
DEAD_LETTER_COPY: Final = "errors.deadletterqueue.copy.record.enable"
DEAD_LETTER_FAILURE: Final = "tidemill.dlq.on.failure"

# For each group key, the broker keys that bound its value: (smallest, largest).
BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    SESSION: ("group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"),
    HEARTBEAT: ("group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ASSIGNMENT: ("group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"),
    LOCK: ("group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    DELIVERIES: ("group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"),
    LOCKS: ("group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupConfig:
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    offset_reset: OffsetReset = LATEST
    lock_ms: int = 30_000
    delivery_limit: int = 5
    locks_max: int = 2_000  # of one partition
    is_renewable: bool = True
    back_off: BackOff = NO_BACK_OFF
    ttl_ms: int = -1  # -1: records do not expire
    tracked_max: int = 10_000  # runs and letters of one partition
    order: str = "none"
    mode: str = "shared"
    look_ahead: int = 10_000
    is_prioritized: bool = False
    waits_at_failover: bool = False
    dead_letter_topic: str = ""
    copies_dead_records: bool = True
    drops_dead_letters: bool = False  # whether a record whose dead letter cannot be written is archived


def compile_share_group_config(overrides: Mapping[str, str], layers: BrokerLayers) -> ShareGroupConfig:
    """
    Return the effective configuration of a group with these settings.  A value is moved into its bounds, which may have
    changed since it was set.
    """
    return ShareGroupConfig(
        session_timeout_ms=_bounded(SESSION, overrides, layers),
        heartbeat_interval_ms=_bounded(HEARTBEAT, overrides, layers),
        assignment_interval_ms=_bounded(ASSIGNMENT, overrides, layers),
        offset_reset=parse_offset_reset(_text("share.auto.offset.reset", overrides, layers)),
        lock_ms=_bounded(LOCK, overrides, layers),
        delivery_limit=_bounded(DELIVERIES, overrides, layers),
        locks_max=_bounded(LOCKS, overrides, layers),
        is_renewable=_flag(RENEWAL, overrides, layers),
        back_off=parse_back_off(_text(BACK_OFF, overrides, layers)),
        ttl_ms=int(_text(TTL, overrides, layers)),
        tracked_max=int(_text(TRACKED, overrides, layers)),
        order=_text(ORDER, overrides, layers).strip(),
        mode=_text(MODE, overrides, layers).strip(),
        look_ahead=int(_text(LOOK_AHEAD, overrides, layers)),
        is_prioritized=_flag(PRIORITY, overrides, layers),
        waits_at_failover=_flag(FAILOVER_WAIT, overrides, layers),
        dead_letter_topic=_text(DEAD_LETTER_TOPIC, overrides, layers),
        copies_dead_records=_flag(DEAD_LETTER_COPY, overrides, layers),
        drops_dead_letters=_text(DEAD_LETTER_FAILURE, overrides, layers) == "drop",
    )


def check_share_group_settings(changed: Set[str], settings: Mapping[str, str], layers: BrokerLayers) -> None:
    """Check the keys in `changed`, with their values in the group's new `settings`; a deleted key is not in them.

    Raises KafkaError (INVALID_CONFIG) for a value out of bounds, and for a session timeout that is not longer than the
    heartbeat interval, because every session would expire between two heartbeats.
    """
    for name, (smallest, largest) in BOUNDS.items():
        if name in changed and name in settings:
            value, low, high = int(settings[name]), broker_int(layers, smallest), broker_int(layers, largest)
            if not low <= value <= high:
                raise KafkaError(
                    errors.INVALID_CONFIG,
                    f"{name}={value} is refused: must be {low} to {high}; change {smallest} or {largest} first",
                )
    if not {SESSION, HEARTBEAT}.isdisjoint(changed):
        session_ms, heartbeat_ms = (_bounded(name, settings, layers) for name in (SESSION, HEARTBEAT))
        if session_ms <= heartbeat_ms:
            raise KafkaError(
                errors.INVALID_CONFIG, f"{SESSION}={session_ms} is refused: must exceed {HEARTBEAT}={heartbeat_ms}"
            )


def _bounded(name: str, overrides: Mapping[str, str], layers: BrokerLayers) -> int:
    smallest, largest = BOUNDS[name]
    value = int(_text(name, overrides, layers))
    return max(broker_int(layers, smallest), min(value, broker_int(layers, largest)))


def _flag(name: str, overrides: Mapping[str, str], layers: BrokerLayers) -> bool:
    return bool(parse(GROUP_KEYS[name], _text(name, overrides, layers)))


def _text(name: str, overrides: Mapping[str, str], layers: BrokerLayers) -> str:
    key = GROUP_KEYS[name]
    found = resolve_group(key, overrides, layers).value
    return key.default_text or "" if found is None else found
