"""The options of Spark's Kafka source, parsed into one frozen value that is pickled to executors.

Spark passes option names in lower case.  The source refuses the same options as Spark's own source, with the same
messages, so a program only has to change the name of the format.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidemill.client import connection_settings
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.columnar import offset_bound, subscription, waiting_options
from tidemill.columnar.data_loss import FAIL, DataLossPolicy, OnDataLoss
from tidemill.columnar.offset_bound import EARLIEST, LATEST, Everywhere, OffsetBound, Specific
from tidemill.columnar.option_values import duration_ms, kafka_keys, positive, size_bytes, truth, warn_of_unknown
from tidemill.columnar.source_option_table import OPTIONS
from tidemill.columnar.subscription import Subscription

_LOG = logging.getLogger(__name__)

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

OFFSETS: Final = "offsets"  # the values of `mode`
SHARE: Final = "share"

ANY: Final = "any"  # the values of `records`
DEAD_LETTERS: Final = "dead-letters"
WAITING: Final = "waiting"

# `load(path)` sets `path`, which is ignored, as in Spark's source.
KNOWN: Final = {name.lower(): name for name in ("path", *(option.name for option in OPTIONS))}
"""The documented spelling of each option by its name in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a read."""

    connection: ConnectionSettings
    subscription: Subscription
    starting: OffsetBound
    ending: OffsetBound
    is_latest_when_no_timestamp_matches: bool = False  # startingOffsetsByTimestampStrategy=latest
    data_loss: DataLossPolicy = FAIL
    has_headers: bool = False
    has_letters: bool = False  # records=dead-letters
    is_waiting: bool = False  # records=waiting
    poll_timeout_ms: int = 120_000
    offset_fetch_retries: int = 3
    offset_fetch_retry_interval_ms: int = 10
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    bytes_per_trigger_max: int | None = None
    trigger_delay_ms_max: int = 15 * 60_000
    partitions_min: int | None = None
    records_per_partition_max: int | None = None
    bytes_per_partition_max: int | None = None
    commit_group: str | None = None
    is_filter_pushed_down: bool = False


def for_batch(options: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a batch query.  Raise a ValueError that names the option, its value and the fix."""
    if is_share(options):
        raise ValueError(
            "mode=share is not supported in batch reads, because a batch read has no commit that could acknowledge "
            "records: use spark.readStream, with trigger(availableNow=True) to end when no record is available"
        )
    _refuse_group(options)
    if is_waiting(options):
        waiting_options.check(options)
    parsed = parse(options, starting=Everywhere(EARLIEST))
    if parsed.starting == Everywhere(LATEST):
        raise ValueError("starting offset can't be latest for batch queries: set startingOffsets to earliest or JSON")
    if parsed.ending == Everywhere(EARLIEST):
        raise ValueError("ending offset can't be earliest for batch queries: set endingOffsets to latest or JSON")
    _refuse_position(parsed.starting, LATEST, "startingOffsets for {} can't be latest for batch queries")
    _refuse_position(parsed.ending, EARLIEST, "ending offset for {} can't be earliest for batch queries")
    for ignored in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay"):
        if ignored.lower() in options:
            _LOG.warning("option %s is ignored in batch queries", ignored)
    if parsed.commit_group is not None:
        _LOG.warning("option commitGroup is ignored in batch queries: nothing is committed after a batch read")
    return parsed


def for_stream(options: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a streaming query.  Raise a ValueError that names the option, its value and the fix."""
    if is_waiting(options):
        raise ValueError(
            f"records={WAITING} is not supported in streaming queries, because it shows what waits at a moment: use "
            "spark.read, or leave it out to read records when they are released"
        )
    for ending in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if ending.lower() in options:
            raise ValueError(f"ending offset not valid in streaming queries: remove option {ending}")
    _refuse_group(options)
    parsed = parse(options, starting=Everywhere(LATEST))
    least, most = parsed.offsets_per_trigger_min, parsed.offsets_per_trigger_max
    if least is not None and most is not None and least > most:
        raise ValueError(
            f"The value of minOffsetsPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}): lower it"
        )
    return parsed


def has_headers(options: Mapping[str, str]) -> bool:
    """Return the value of includeHeaders.  The schema depends on it and on `has_letters`."""
    return truth(options, "includeHeaders", default=False)


def has_letters(options: Mapping[str, str]) -> bool:
    """Return whether the option `records` says that the records are dead letters, which have further columns."""
    return _records(options) == DEAD_LETTERS


def is_waiting(options: Mapping[str, str]) -> bool:
    """Return whether the option `records` asks for the records of timer topics that wait."""
    return _records(options) == WAITING


def _records(options: Mapping[str, str]) -> str:
    value = options.get("records", ANY).strip().lower()
    if value not in (ANY, DEAD_LETTERS, WAITING):
        raise ValueError(f"records={value} is unknown: use {ANY}, {DEAD_LETTERS} or {WAITING}")
    return value


def is_share(options: Mapping[str, str]) -> bool:
    """Return whether the option `mode` asks for the records of a share group.  Raise ValueError if it is unknown."""
    mode = options.get("mode", OFFSETS).strip().lower()
    if mode not in (OFFSETS, SHARE):
        raise ValueError(f"mode={mode} is unknown: use {OFFSETS} or {SHARE}")
    return mode == SHARE


def parse(options: Mapping[str, str], starting: OffsetBound) -> SourceOptions:
    """Parse the options that all kinds of queries share.  `starting` is the default of startingOffsets."""
    warn_of_unknown(options, KNOWN)
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise ValueError(f"startingOffsetsByTimestampStrategy={strategy} is unknown: use error or latest")
    return SourceOptions(
        connection=_connection(options),
        subscription=subscription.parse(options),
        starting=offset_bound.parse(options, "starting", default=starting),
        ending=offset_bound.parse(options, "ending", default=Everywhere(LATEST)),
        is_latest_when_no_timestamp_matches=strategy == "latest",
        data_loss=_data_loss(options),
        has_headers=has_headers(options),
        has_letters=has_letters(options),
        is_waiting=is_waiting(options),
        poll_timeout_ms=positive(options, "kafkaConsumer.pollTimeoutMs") or 120_000,
        offset_fetch_retries=positive(options, "fetchOffset.numRetries") or 3,
        offset_fetch_retry_interval_ms=positive(options, "fetchOffset.retryIntervalMs") or 10,
        offsets_per_trigger_max=positive(options, "maxOffsetsPerTrigger"),
        offsets_per_trigger_min=positive(options, "minOffsetsPerTrigger"),
        bytes_per_trigger_max=size_bytes(options, "maxBytesPerTrigger"),
        trigger_delay_ms_max=duration_ms(options, "maxTriggerDelay", default_ms=15 * 60_000),
        partitions_min=positive(options, "minPartitions"),
        records_per_partition_max=positive(options, "maxRecordsPerPartition"),
        bytes_per_partition_max=size_bytes(options, "maxBytesPerPartition"),
        commit_group=_commit_group(options),
        is_filter_pushed_down=truth(options, "filterPushdown", default=False),
    )


def _data_loss(options: Mapping[str, str]) -> DataLossPolicy:
    """
    Return the policy that onDataLoss sets.

    Spark's option failOnDataLoss is an alias: true means `fail`, false `skip`.
    """
    value = options.get("ondataloss")
    is_failing = truth(options, "failOnDataLoss", default=True)
    if value is None:
        chosen = OnDataLoss.FAIL if is_failing else OnDataLoss.SKIP
    else:
        if value.strip().lower() not in set(OnDataLoss):
            raise ValueError(f"onDataLoss={value} is unknown: use {', '.join(OnDataLoss)}")
        chosen = OnDataLoss(value.strip().lower())
        if "failondataloss" in options and is_failing != (chosen is OnDataLoss.FAIL):
            raise ValueError(
                f"onDataLoss={value} contradicts failOnDataLoss={options['failondataloss']}: remove failOnDataLoss"
            )
    log = options.get("datalosslog", "").strip()
    if chosen is OnDataLoss.REPORT and not log:
        raise ValueError("onDataLoss=report needs option dataLossLog: name a directory for the rows about lost records")
    if chosen is not OnDataLoss.REPORT and log:
        raise ValueError(f"dataLossLog={log} is used only with onDataLoss=report: set that, or remove dataLossLog")
    # A relative path is relative to the driver's working directory, which executors do not share.
    return DataLossPolicy(chosen, (log if "://" in log else os.path.abspath(log)) if log else None)


def _refuse_group(options: Mapping[str, str]) -> None:
    if "group" in options:
        raise ValueError(
            f"group={options['group']} is used only with mode=share: set it, or use startingOffsets=group:NAME and "
            "commitGroup for a consumer group"
        )


def _commit_group(options: Mapping[str, str]) -> str | None:
    group = options.get("commitgroup")
    if group is not None and not group.strip():
        raise ValueError(f"commitGroup={group!r} names no group: name one, or remove the option")
    return None if group is None else group.strip()


def _connection(options: Mapping[str, str]) -> ConnectionSettings:
    keys = kafka_keys(options)
    if "bootstrap.servers" not in keys:
        raise ValueError("Option 'kafka.bootstrap.servers' must be specified for configuring the Tidemill source")
    for key, reason in _REFUSED_KAFKA_KEYS.items():
        if key in keys:
            raise ValueError(f"Kafka option '{key}' is not supported. {reason}")
    for key in connection_settings.unknown_keys(keys):
        _LOG.warning("option kafka.%s has no effect: the Tidemill source does not know it", key)
    return connection_settings.from_keys(keys)


def _refuse_position(bound: OffsetBound, position: int, sentence: str) -> None:
    if isinstance(bound, Specific):
        for (topic, partition), offset in bound.offsets.items():
            if offset == position:
                raise ValueError(sentence.format(f"{topic}-{partition}"))
