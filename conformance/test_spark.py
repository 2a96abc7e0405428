"""The suite of the Spark source and sink passes against Apache Kafka as well."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.apache_kafka import ApacheKafka

ROOT = Path(__file__).resolve().parent.parent
SUITE = ("test_batch_read.py", "test_batch_write.py", "test_stream_read.py", "test_stream_write.py")


@pytest.mark.timeout(3_600)
def test_the_source_and_the_sink_work_with_apache_kafka(apache_kafka: ApacheKafka) -> None:
    """Every test passes whose broker can be chosen; none is skipped."""
    pytest.importorskip("pyspark", reason="extra 'spark' is not installed")
    files = [str(ROOT / "tests" / "integration" / "spark" / name) for name in SUITE]
    environment = {**os.environ, "TIDEMILL_TEST_BOOTSTRAP": apache_kafka.bootstrap}

    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", *files],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert 0 == outcome.returncode, outcome.stdout[-20_000:]
    assert "skipped" not in outcome.stdout
