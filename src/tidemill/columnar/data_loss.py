"""Handles the loss of records that a query should have read: the query fails, skips them, or reports them.

A report is a row in a directory of JSON files, which `spark.read.json` reads.  Tasks that are retried and batches that
are replayed report the same loss again.
"""

import json
import logging
import os
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

_LOG = logging.getLogger(__name__)

_WHAT_TO_DO = (
    "Some data may have been lost: it was removed by retention, or the topic was deleted, before it was read. "
    "Start a new query with a new checkpoint to begin at startingOffsets, or set failOnDataLoss=false, or "
    "onDataLoss=report with dataLossLog=DIRECTORY, to continue with the remaining data."
)


class DataLossError(Exception):
    """Records that the query should have read are no longer in the cluster."""


class OnDataLoss(StrEnum):
    FAIL = "fail"
    SKIP = "skip"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Lost:
    """A range of lost offsets.  Fields that are unknown are None, for example for a topic that was deleted."""

    topic: str
    partition: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None  # exclusive


@dataclass(frozen=True, slots=True)
class DataLossPolicy:
    """What a query does about lost records: the options onDataLoss and dataLossLog."""

    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    log: str | None = None  # a directory or a URI; set for REPORT

    def prepare(self) -> None:
        """Create the log directory, so that a query that cannot write to it fails at the start.

        Raise DataLossError if this fails.
        """
        if self.log is not None:
            try:
                filesystem, path = _located(self.log)
                filesystem.create_dir(path, recursive=True)
            except (OSError, ValueError) as error:
                raise DataLossError(f"dataLossLog={self.log} cannot be written: {error}") from error

    def apply(self, what: str, *lost: Lost) -> None:
        """
        Raise DataLossError if losses fail the query or cannot be reported; otherwise log a warning.

        `what` is a sentence that describes all ranges in `lost`.
        """
        if self.on_data_loss is OnDataLoss.FAIL:
            raise DataLossError(f"{what} {_WHAT_TO_DO}")
        if self.log is not None:
            _write(self.log, what, lost)
        _LOG.warning("%s The query continues because onDataLoss=%s.", what, self.on_data_loss)


FAIL: Final = DataLossPolicy()


def _write(directory: str, what: str, lost: Iterable[Lost]) -> None:
    """Write a file with a row per range.  Its name is unique: many tasks report, and object stores cannot append."""
    reported_at = datetime.now(UTC)
    rows = [{"reported_at": reported_at.isoformat(), "what": what, **asdict(one)} for one in lost]
    try:
        filesystem, path = _located(directory)
        name = f"{reported_at:%Y%m%dT%H%M%S}-{uuid.uuid4().hex}.json"
        filesystem.create_dir(path, recursive=True)
        with filesystem.open_output_stream(f"{path}/{name}") as stream:
            stream.write("".join(f"{json.dumps(row)}\n" for row in rows).encode())
    except (OSError, ValueError) as error:
        raise DataLossError(f"{what} The loss could not be reported to dataLossLog={directory}: {error}") from error


def _located(directory: str) -> tuple[Any, str]:
    from pyarrow import fs

    located: tuple[Any, str] = fs.FileSystem.from_uri(directory if "://" in directory else os.path.abspath(directory))
    return located
