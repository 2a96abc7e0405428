"""The lag of a streaming query, computed from its progress.

Spark's Kafka source reports the average, maximum and minimum lag of its partitions in `sources[].metrics`.  Spark does
not let sources in Python report metrics, but the progress of every source contains its end offset and the latest
offset.
"""

import json
from collections.abc import Mapping
from typing import Any

from tidemill.columnar.offset_bound import from_json


def offsets_behind_latest(source: Mapping[str, Any]) -> dict[str, str]:
    """
    Return avgOffsetsBehindLatest, maxOffsetsBehindLatest and minOffsetsBehindLatest of a source.

    `source` is one of `query.lastProgress["sources"]`.  The names and the format of the values are those of Spark's
    Kafka source.  Return an empty dictionary for a batch without offsets.
    """
    end, latest = (_offsets(source[name]) for name in ("endOffset", "latestOffset"))
    behind = [offset - end[partition] for partition, offset in latest.items() if partition in end]
    if not behind:
        return {}
    return {
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "minOffsetsBehindLatest": str(min(behind)),
    }


def _offsets(text: str | None) -> dict[Any, int]:
    parsed = json.loads(text) if text and text != "None" else None  # PySpark writes "None" for no offset
    return from_json(parsed or {})
