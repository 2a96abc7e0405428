"""The example program writes a topic to Parquet files."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet

from tests.integration.spark.conftest import SOURCE

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "stream_to_parquet.py"
SPARK = "--conf spark.ui.enabled=false pyspark-shell"


def test_the_example_writes_every_record_to_parquet(bootstrap, make_topic, produce, tmp_path):
    """
    `examples/stream_to_parquet.py` writes each record of the topic once.
    """
    topic = make_topic(partitions=2)
    produce(topic, [{"key": f"key {n}", "value": f"order {n}", "partition": n % 2} for n in range(20)])
    environment = os.environ | {
        "PYTHONPATH": str(SOURCE),
        "PYSPARK_SUBMIT_ARGS": SPARK,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TIDEMILL_BOOTSTRAP": bootstrap,
    }

    finished = subprocess.run(
        [sys.executable, EXAMPLE, topic, tmp_path / "out"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=270,
    )

    assert 0 == finished.returncode, finished.stderr[-4_000:]
    rows = pyarrow.parquet.read_table(tmp_path / "out" / "records").to_pylist()
    assert sorted((f"key {n}", f"order {n}", n % 2, n // 2) for n in range(20)) == sorted(
        (row["key"], row["value"], row["partition"], row["offset"]) for row in rows
    )
