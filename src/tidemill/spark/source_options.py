"""The options of Spark's Kafka source, parsed into one frozen value that is pickled to executors.

Spark passes option names in lower case.  The same options are refused, with the same messages, as in Spark's own
source, so a program only has to change the name of the format.
"""

import difflib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidemill.client import connection_settings
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.spark import offset_bound, subscription
from tidemill.spark.offset_bound import EARLIEST, LATEST, Everywhere, OffsetBound, Specific
from tidemill.spark.subscription import Subscription

_LOG = logging.getLogger(__name__)
_KAFKA: Final = "kafka."

_REFUSED_KAFKA_KEYS: Final = {
    "auto.offset.reset": (
        "Instead set the source option 'startingOffsets' to 'earliest' or 'latest' to specify where to start. "
        "Which offsets are consumed is tracked by the query, not by Kafka."
    ),
    "enable.auto.commit": "The query's checkpoint tracks what was consumed; nothing is committed to a group.",
    "interceptor.classes": "Records are decoded in bulk; interceptors are not called.",
    "key.deserializer": "Keys are always binary; use DataFrame operations to deserialize them.",
    "value.deserializer": "Values are always binary; use DataFrame operations to deserialize them.",
    "key.serializer": "This is a source; nothing is serialized.",
    "value.serializer": "This is a source; nothing is serialized.",
}

_KNOWN: Final = frozenset(
    {
        "assign",
        "endingoffsets",
        "endingoffsetsbytimestamp",
        "endingtimestamp",
        "failondataloss",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "groupidprefix",  # accepted without effect, because the source joins no group
        "includeheaders",
        "kafkaconsumer.polltimeoutms",
        "maxoffsetspertrigger",
        "maxrecordsperpartition",
        "maxtriggerdelay",
        "minoffsetspertrigger",
        "minpartitions",
        "path",  # set by `load(path)`; ignored, as in Spark's source
        "startingoffsets",
        "startingoffsetsbytimestamp",
        "startingoffsetsbytimestampstrategy",
        "startingtimestamp",
        "subscribe",
        "subscribepattern",
    }
)

_TIME_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a read."""

    connection: ConnectionSettings
    subscription: Subscription
    starting: OffsetBound
    ending: OffsetBound
    is_latest_when_no_timestamp_matches: bool = False  # startingOffsetsByTimestampStrategy=latest
    is_failing_on_data_loss: bool = True
    has_headers: bool = False
    poll_timeout_ms: int = 120_000
    offset_fetch_retries: int = 3
    offset_fetch_retry_interval_ms: int = 10
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_ms_max: int = 15 * 60_000
    partitions_min: int | None = None
    records_per_partition_max: int | None = None


def for_batch(options: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a batch query.  Raise a ValueError that names the option, its value and the fix."""
    parsed = _parse(options, starting=Everywhere(EARLIEST))
    if parsed.starting == Everywhere(LATEST):
        raise ValueError("starting offset can't be latest for batch queries: set startingOffsets to earliest or JSON")
    if parsed.ending == Everywhere(EARLIEST):
        raise ValueError("ending offset can't be earliest for batch queries: set endingOffsets to latest or JSON")
    _refuse_position(parsed.starting, LATEST, "startingOffsets for {} can't be latest for batch queries")
    _refuse_position(parsed.ending, EARLIEST, "ending offset for {} can't be earliest for batch queries")
    for ignored in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
        if ignored.lower() in options:
            _LOG.warning("option %s is ignored in batch queries", ignored)
    return parsed


def for_stream(options: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a streaming query.  Raise a ValueError that names the option, its value and the fix."""
    for ending in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if ending.lower() in options:
            raise ValueError(f"ending offset not valid in streaming queries: remove option {ending}")
    parsed = _parse(options, starting=Everywhere(LATEST))
    least, most = parsed.offsets_per_trigger_min, parsed.offsets_per_trigger_max
    if least is not None and most is not None and least > most:
        raise ValueError(
            f"The value of minOffsetsPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}): lower it"
        )
    return parsed


def has_headers(options: Mapping[str, str]) -> bool:
    """Return the value of includeHeaders, the only option on which the schema depends."""
    return _truth(options, "includeHeaders", default=False)


def _parse(options: Mapping[str, str], starting: OffsetBound) -> SourceOptions:
    _warn_of_unknown(options)
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise ValueError(f"startingOffsetsByTimestampStrategy={strategy} is unknown: use error or latest")
    return SourceOptions(
        connection=_connection(options),
        subscription=subscription.parse(options),
        starting=offset_bound.parse(options, "starting", default=starting),
        ending=offset_bound.parse(options, "ending", default=Everywhere(LATEST)),
        is_latest_when_no_timestamp_matches=strategy == "latest",
        is_failing_on_data_loss=_truth(options, "failOnDataLoss", default=True),
        has_headers=has_headers(options),
        poll_timeout_ms=_positive(options, "kafkaConsumer.pollTimeoutMs") or 120_000,
        offset_fetch_retries=_positive(options, "fetchOffset.numRetries") or 3,
        offset_fetch_retry_interval_ms=_positive(options, "fetchOffset.retryIntervalMs") or 10,
        offsets_per_trigger_max=_positive(options, "maxOffsetsPerTrigger"),
        offsets_per_trigger_min=_positive(options, "minOffsetsPerTrigger"),
        trigger_delay_ms_max=_duration_ms(options, "maxTriggerDelay", default_ms=15 * 60_000),
        partitions_min=_positive(options, "minPartitions"),
        records_per_partition_max=_positive(options, "maxRecordsPerPartition"),
    )


def _connection(options: Mapping[str, str]) -> ConnectionSettings:
    keys = {name.removeprefix(_KAFKA): value for name, value in options.items() if name.startswith(_KAFKA)}
    if "bootstrap.servers" not in keys:
        raise ValueError("Option 'kafka.bootstrap.servers' must be specified for configuring the Tidemill source")
    for key, reason in _REFUSED_KAFKA_KEYS.items():
        if key in keys:
            raise ValueError(f"Kafka option '{key}' is not supported. {reason}")
    for key in connection_settings.unknown_keys(keys):
        _LOG.warning("option kafka.%s=%s has no effect: the Tidemill source does not know it", key, keys[key])
    return connection_settings.from_keys(keys)


def _warn_of_unknown(options: Mapping[str, str]) -> None:
    """Log a warning for each unknown option.  Unknown options are ignored, as in Spark's source."""
    for name in options:
        if name in _KNOWN or name.startswith(_KAFKA):
            continue
        near = difflib.get_close_matches(name, _KNOWN, n=1)
        _LOG.warning("option %s is ignored%s", name, f": did you mean {near[0]}?" if near else "")


def _refuse_position(bound: OffsetBound, position: int, sentence: str) -> None:
    if isinstance(bound, Specific):
        for (topic, partition), offset in bound.offsets.items():
            if offset == position:
                raise ValueError(sentence.format(f"{topic}-{partition}"))


def _truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = options.get(name.lower())
    if value is None:
        return default
    if str(value).strip().lower() not in ("true", "false"):
        raise ValueError(f"{name}={value} must be true or false")
    return str(value).strip().lower() == "true"


def _positive(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name.lower())
    if value is None:
        return None
    if not str(value).strip().isdecimal() or int(value) == 0:
        raise ValueError(f"{name} must be positive, got {value}")
    return int(value)


def _duration_ms(options: Mapping[str, str], name: str, *, default_ms: int) -> int:
    """Parse a duration in Spark's notation: `15m`, `90s`, `500ms`; a number without a unit is in milliseconds."""
    value = options.get(name.lower())
    if value is None:
        return default_ms
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", value.strip().lower())
    unit = (match.group(2) or "ms") if match else ""
    if match is None or unit not in _TIME_UNITS_MS:
        raise ValueError(f"{name}={value} is not a duration: write e.g. 500ms, 90s, 15m, 2h or 1d")
    return int(match.group(1)) * _TIME_UNITS_MS[unit]
