"""The options that a read of what waits refuses."""

from collections.abc import Mapping
from typing import Final

_NO_OFFSETS: Final = "a record has no offset before it is released: filter on arrival or deliver_at instead"
_NO_LOSS: Final = "records end to wait when they are released, so none of them is lost: remove it"
_ONE_TASK: Final = "each partition of the topic is read by one task: remove it"

REFUSED: Final = {
    "startingOffsets": _NO_OFFSETS,
    "startingTimestamp": _NO_OFFSETS,
    "startingOffsetsByTimestamp": _NO_OFFSETS,
    "startingOffsetsByTimestampStrategy": _NO_OFFSETS,
    "endingOffsets": _NO_OFFSETS,
    "endingTimestamp": _NO_OFFSETS,
    "endingOffsetsByTimestamp": _NO_OFFSETS,
    "onDataLoss": _NO_LOSS,
    "dataLossLog": _NO_LOSS,
    "failOnDataLoss": _NO_LOSS,
    "minPartitions": _ONE_TASK,
    "maxRecordsPerPartition": _ONE_TASK,
    "maxBytesPerPartition": _ONE_TASK,
}
"""Options of other reads that records=waiting refuses, each with what to do instead."""


def check(options: Mapping[str, str]) -> None:
    """Raise a ValueError that names the first refused option, its value and the fix."""
    for name, instead in REFUSED.items():
        if name.lower() in options:
            raise ValueError(f"{name}={options[name.lower()]} is not supported with records=waiting: {instead}")
