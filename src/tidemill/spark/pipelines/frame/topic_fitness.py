"""Checks whether a topic accepts and keeps records with old timestamps."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

KEYS: Final = (
    "cleanup.policy",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "retention.ms",
    "retention.bytes",
)


def refusals(
    topic: str,
    configs: Mapping[str, str],
    *,
    first_us: int,
    last_us: int,
    partition_bytes: int,
    now_ms: int,
    is_expiry_allowed: bool,
) -> list[str]:
    """
    Return the reasons why the topic would refuse, change or remove records; empty if it would keep them unchanged.

    `configs` contains the topic's configurations by key; missing keys are not checked.  `first_us` and `last_us` are
    the first and the last event time in microseconds since the epoch, and `partition_bytes` is the largest number of
    bytes that a partition receives.
    """
    first_ms, last_ms = first_us // 1_000, -(-last_us // 1_000)
    found = [
        _by_the_broker_s_clock(topic, configs),
        _too_old(topic, configs, first_ms, now_ms),
        _too_new(topic, configs, last_ms, now_ms),
    ]
    if not is_expiry_allowed and "delete" in configs.get("cleanup.policy", "delete"):
        found += [_expired_by_time(topic, configs, first_ms, now_ms), _expired_by_size(topic, configs, partition_bytes)]
    return [sentence for sentence in found if sentence is not None]


def _expired_by_time(topic: str, configs: Mapping[str, str], first_ms: int, now_ms: int) -> str | None:
    limit_ms = _number(configs, "retention.ms")
    if limit_ms is None or limit_ms < 0 or first_ms >= now_ms - limit_ms:
        return None
    return (
        f"retention.ms={limit_ms} of topic {topic!r} removes records from before {_shown(now_ms - limit_ms)}, and the "
        f"first event is at {_shown(first_ms)}: set retention.ms=-1, or allow_expired to write them anyway"
    )


def _expired_by_size(topic: str, configs: Mapping[str, str], partition_bytes: int) -> str | None:
    limit = _number(configs, "retention.bytes")
    if limit is None or limit < 0 or limit >= partition_bytes:
        return None
    return (
        f"retention.bytes={limit} of topic {topic!r} keeps less than the {partition_bytes} bytes that a partition "
        "receives: set retention.bytes=-1, or allow_expired to write them anyway"
    )


def _by_the_broker_s_clock(topic: str, configs: Mapping[str, str]) -> str | None:
    if configs.get("message.timestamp.type") != "LogAppendTime":
        return None
    return (
        f"message.timestamp.type=LogAppendTime of topic {topic!r} replaces event times by the broker's clock: set "
        "message.timestamp.type=CreateTime"
    )


def _too_old(topic: str, configs: Mapping[str, str], first_ms: int, now_ms: int) -> str | None:
    limit_ms = _number(configs, "message.timestamp.before.max.ms")
    if limit_ms is None or first_ms >= now_ms - limit_ms:
        return None
    return (
        f"message.timestamp.before.max.ms={limit_ms} of topic {topic!r} refuses records from before "
        f"{_shown(now_ms - limit_ms)}, and the first event is at {_shown(first_ms)}: raise it"
    )


def _too_new(topic: str, configs: Mapping[str, str], last_ms: int, now_ms: int) -> str | None:
    limit_ms = _number(configs, "message.timestamp.after.max.ms")
    if limit_ms is None or last_ms <= now_ms + limit_ms:
        return None
    return (
        f"message.timestamp.after.max.ms={limit_ms} of topic {topic!r} refuses records from after "
        f"{_shown(now_ms + limit_ms)}, and the last event is at {_shown(last_ms)}: raise it"
    )


def _number(configs: Mapping[str, str], key: str) -> int | None:
    value = configs.get(key)
    return None if value is None else int(value)


def _shown(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
