"""The examples with DuckDB, Polars and pandas work with a real broker."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.spark.conftest import SOURCE
from tidemill import arrow

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
LINES_MAX = 20


@pytest.mark.parametrize("library", ["duckdb", "polars", "pandas"])
def test_an_example_counts_the_records_per_key(library, bootstrap, make_topic, produce):
    """
    An example reads a topic, counts its records per key, and writes the counts to another topic.
    """
    pytest.importorskip(library)
    example = EXAMPLES / f"arrow_{library}.py"
    source, target = make_topic(partitions=2), make_topic()
    produce(source, [{"key": f"key {n % 3}", "value": f"order {n}"} for n in range(20)])

    finished = subprocess.run(
        [sys.executable, example, source, target],
        env=os.environ | {"TIDEMILL_BOOTSTRAP": bootstrap, "PYTHONPATH": os.pathsep.join([str(SOURCE), *sys.path[1:]])},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert 0 == finished.returncode, finished.stderr
    assert finished.stdout.startswith("WriteSummary(records=3,")
    counts = arrow.read(target, bootstrap_servers=bootstrap).read_all()
    assert [(b"key 0", b"7"), (b"key 1", b"7"), (b"key 2", b"6")] == sorted(
        zip(counts["key"].to_pylist(), counts["value"].to_pylist(), strict=True)
    )
    assert LINES_MAX >= len(example.read_text().splitlines())
