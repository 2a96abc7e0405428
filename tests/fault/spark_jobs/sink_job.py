"""A streaming query from one topic to another as a job that tests kill and run again: no record is lost, and the order
of each key is kept.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.fault.spark_jobs.copied_records import duplicates_of
from tests.fault.spark_jobs.topic_records import create_topic, read_all, send_numbered

_SOURCE: Final = "stream-source"
_TARGET: Final = "stream-target"
_SOURCE_PARTITIONS: Final = 3
_TARGET_PARTITIONS: Final = 4
_BATCH: Final = 600
_RECORDS: Final = 6 * _BATCH  # enough batches that no run ends before it is killed


class SinkJob:
    """
    The query runs until it has copied all records, and the next run continues from its checkpoint.

    Spark repeats a batch that was interrupted, so the target may contain records of that batch twice.
    """

    name = "sink"

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._checkpoint = directory / "checkpoint"
        self._sent = 0
        create_topic(bootstrap, _SOURCE, _SOURCE_PARTITIONS)
        create_topic(bootstrap, _TARGET, _TARGET_PARTITIONS)

    def prepare(self) -> None:
        send_numbered(self._bootstrap, _SOURCE, self._sent, _RECORDS, _SOURCE_PARTITIONS)
        self._sent += _RECORDS

    def arguments(self, master: str) -> Sequence[str]:
        program = Path(__file__).with_name("stream_copy.py")
        return [str(program), master, self._bootstrap, _SOURCE, _TARGET, str(self._checkpoint), str(_BATCH)]

    def moments(self) -> dict[str, int]:
        return {"batches begun": self._batches("offsets"), "batches committed": self._batches("commits")}

    def check(self) -> str:
        duplicates = duplicates_of(read_all(self._bootstrap, _TARGET, _TARGET_PARTITIONS), self._sent)
        return f"{self._sent} records, and {duplicates} duplicates"

    def _batches(self, log: str) -> int:
        """
        Return how many batches a log of Spark's checkpoint contains.  Spark removes entries only after 100 batches.
        """
        return sum(path.name.isdecimal() for path in (self._checkpoint / log).glob("*"))
