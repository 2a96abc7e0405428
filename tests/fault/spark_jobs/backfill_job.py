"""The pipeline `backfill` as a job that tests kill and run again: no row is lost, each partition is in event-time
order, and duplicates are counted.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fault.spark_jobs.scene import session_arguments
from tests.fault.spark_jobs.topic_records import START_MS, Record, create_topic, read_all

_TOPIC: Final = "backfilled"
_PARTITIONS: Final = 3
_PART: Final = 400
_RECORDS: Final = 8 * _PART  # enough parts that no run ends before it is killed
_PER_SECOND: Final = 800  # rows per second, so slow that a kill can hit a part while it is written
_FIRST: Final = datetime.fromtimestamp(START_MS / 1_000, UTC)


class BackfillJob:
    """
    Each call of `prepare` begins a round, which has its own state directory, and a directory of files whose events are
    later than those of earlier rounds.

    The second half of a round is in two files that overlap, so the backfill must sort their records.
    """

    name = "backfill"

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._rounds = 0
        create_topic(bootstrap, _TOPIC, _PARTITIONS)

    def prepare(self) -> None:
        self._rounds += 1
        files = self._files(self._rounds)
        files.mkdir()
        numbers = range((self._rounds - 1) * _RECORDS, self._rounds * _RECORDS)
        middle = _RECORDS // 2
        parts = {"c": numbers[: middle // 2], "b": numbers[middle // 2 : middle]}
        parts |= {"a": numbers[middle::2], "d": numbers[middle + 1 :: 2]}
        for name, some in parts.items():
            rows = [{"key": _key(n), "number": f"{n:010}", "time": _FIRST + timedelta(seconds=n)} for n in some]
            pq.write_table(pa.Table.from_pylist(rows), files / f"{name}.parquet")

    def arguments(self, master: str) -> Sequence[str]:
        options = {
            "source": self._files(self._rounds),
            "format": "parquet",
            "topic": _TOPIC,
            "timestamp": "time",
            "key": "key",
            "value": "number",
            "rate-records": _PER_SECOND,
            "part-records": _PART,
            "state": self._state(self._rounds),
            "bootstrap": self._bootstrap,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return ["-m", "tidemill", "pipeline", "run", "backfill", *words, *session_arguments(master)]

    def moments(self) -> dict[str, int]:
        done = begun = 0
        for number in range(1, self._rounds + 1):
            position = self._position(number)
            done += position.get("parts", 0)
            begun += position.get("parts", 0) + bool(position.get("begun_at"))
        return {"parts begun": begun, "parts done": done}

    def check(self) -> str:
        records = list(read_all(self._bootstrap, _TOPIC, _PARTITIONS))
        found = Counter((one.key, one.value, one.timestamp_ms) for one in records)
        total = self._rounds * _RECORDS
        wanted = {(_key(n).encode(), b"%010d" % n, START_MS + n * 1_000) for n in range(total)}
        assert wanted == found.keys(), f"{len(wanted - found.keys())} rows are lost"
        by_partition: dict[int, dict[bytes | None, Record]] = defaultdict(dict)
        for one in records:
            by_partition[one.partition].setdefault(one.value, one)
        for partition, firsts in by_partition.items():
            assert all(a.timestamp_ms < b.timestamp_ms for a, b in pairwise(firsts.values())), partition
        partitions_of_keys = {(one.key, one.partition) for one in records}
        assert len({key for key, _ in partitions_of_keys}) == len(partitions_of_keys)
        duplicates = found.total() - total
        counted = sum(self._position(number)["extra_records"] for number in range(1, self._rounds + 1))
        assert duplicates == counted, f"the reports say that there are {counted} duplicates, and there are {duplicates}"
        return f"{total} rows in event-time order, and {duplicates} duplicates, as reported"

    def _files(self, number: int) -> Path:
        return self._directory / f"files-{number}"

    def _state(self, number: int) -> Path:
        return self._directory / f"state-{number}"

    def _position(self, number: int) -> dict[str, int]:
        try:
            found: dict[str, int] = json.loads((self._state(number) / "position.json").read_bytes())
        except FileNotFoundError:
            return {}
        return found


def _key(number: int) -> str:
    return f"key {number % 100}"
