"""Compares a topic with Parquet files, each record by its partition and offset."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

from tests.fault.spark_jobs.topic_records import Record


def rows_of(files: Iterable[Path]) -> list[Record]:
    """Return the rows of the files as records."""
    rows = []
    for file in files:
        for row in pq.ParquetFile(file).read().to_pylist():
            time_ms = round(row["timestamp"].timestamp() * 1_000)
            headers = tuple((one["key"], one["value"]) for one in row["headers"] or ())
            rows.append(Record(row["partition"], row["offset"], row["key"], row["value"], time_ms, headers))
    return rows


def differences(records: Iterable[Record], rows: Iterable[Record]) -> list[str]:
    """Return a sentence for each record that is not in `rows` exactly once and unchanged."""
    wanted = {(one.partition, one.offset): one for one in records}
    counts = Counter((one.partition, one.offset) for one in rows)
    found = {(one.partition, one.offset): one for one in rows}
    problems = [f"{place} is archived {count} times" for place, count in sorted(counts.items()) if count > 1]
    problems += [f"{place} is not archived" for place in sorted(wanted.keys() - found.keys())]
    problems += [f"{place} is not in the topic" for place in sorted(found.keys() - wanted.keys())]
    changed = [place for place in sorted(wanted.keys() & found.keys()) if wanted[place] != found[place]]
    return problems + [f"{place} is {found[place]} instead of {wanted[place]}" for place in changed]
