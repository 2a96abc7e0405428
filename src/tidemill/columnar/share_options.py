"""The options of a streaming query with mode=share, which processes the records of a share group."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tidemill.columnar import source_options
from tidemill.columnar.data_loss import DataLossPolicy, OnDataLoss
from tidemill.columnar.offset_bound import EARLIEST, Everywhere
from tidemill.columnar.source_options import SourceOptions

_GROUP_DECIDES: Final = "the share group decides where it starts: set its share.auto.offset.reset instead"
_BROKER_COUNTS: Final = "the broker counts records that retention removed before they were processed: remove it"
_LOCKS_LIMIT: Final = "set maxOffsetsPerTrigger, or the group's share.partition.max.record.locks, instead"

REFUSED: Final = {
    "startingOffsets": _GROUP_DECIDES,
    "startingTimestamp": _GROUP_DECIDES,
    "startingOffsetsByTimestamp": _GROUP_DECIDES,
    "startingOffsetsByTimestampStrategy": _GROUP_DECIDES,
    "records": "read dead letters, and what waits, without a share group",
    "endingOffsets": "a share group has no end: use trigger(availableNow=True)",
    "endingTimestamp": "a share group has no end: use trigger(availableNow=True)",
    "endingOffsetsByTimestamp": "a share group has no end: use trigger(availableNow=True)",
    "commitGroup": "records are acknowledged to the share group: remove it",
    "onDataLoss": _BROKER_COUNTS,
    "dataLossLog": _BROKER_COUNTS,
    "failOnDataLoss": _BROKER_COUNTS,
    "minOffsetsPerTrigger": "set a trigger, such as processingTime, instead",
    "maxTriggerDelay": "set a trigger, such as processingTime, instead",
    "maxBytesPerTrigger": _LOCKS_LIMIT,
    "maxBytesPerPartition": "set maxRecordsPerPartition instead",
    "filterPushdown": "records that a filter skips would be acknowledged: filter the DataFrame",
    "kafka.isolation.level": "set the group's share.isolation.level instead",
}
"""Options of other queries that mode=share refuses, each with what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOptions:
    """The options of a query with mode=share.  Spark pickles them."""

    group: str
    source: SourceOptions  # how executors read the records that the group has acquired


def parse(options: Mapping[str, str]) -> ShareOptions:
    """Parse the options.  Raise a ValueError that names the option, its value and the fix."""
    group = options.get("group", "").strip()
    if not group:
        raise ValueError("mode=share needs option group: name the share group whose records the query processes")
    for name, instead in REFUSED.items():
        if name.lower() in options:
            raise ValueError(f"{name}={options[name.lower()]} is not supported with mode=share: {instead}")
    source = source_options.parse(options, starting=Everywhere(EARLIEST))
    # A record may be removed between its acquisition and its read.  The broker has counted it.
    return ShareOptions(group=group, source=replace(source, data_loss=DataLossPolicy(OnDataLoss.SKIP)))
