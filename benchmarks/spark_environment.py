"""The PySpark of the Spark benchmarks, installed once in the benchmark cache, and Spark's own Kafka connector."""

import json
import os
import subprocess
import tempfile
import venv
from pathlib import Path
from typing import Any

from benchmarks.broker import Unavailable
from benchmarks.maven import Artifact, cache_directory, jars
from benchmarks.tidemill_broker import REPOSITORY

OURS = 'Tidemill, format("tidemill")'
CONNECTOR_NAME = 'Apache Kafka, format("kafka")'
# Version 4.2.0 of the token provider is not available everywhere; 4.0.0 works, because no token is used.
PROVIDER = "spark-token-provider-kafka-0-10_2.13"
CONNECTOR = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", without=(f"org.apache.spark:{PROVIDER}",)),
    Artifact("org.apache.spark", PROVIDER, "4.0.0"),
)
# The other dependencies (Scala, Hadoop, logging) are in PySpark, and two versions of a library would conflict.
CONNECTOR_JARS = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
PACKAGES = (
    "pyspark>=4.2,<4.3", "pyarrow>=18", "pandas>=2.2,<3", "numpy>=1.26", "confluent-kafka", "crc32c", "cramjam", "lz4",
    "zstandard", "Cython>=3.1",
)  # fmt: skip
JOB_SECONDS_MAX = 1_800


def spark_python() -> Path:
    """Return the interpreter of the benchmarks' own environment, which the first call creates.  Raise Unavailable."""
    home = cache_directory() / "spark" / "venv"
    python, wanted = home / "bin" / "python", home / "packages"
    if not wanted.exists() or wanted.read_text() != "\n".join(PACKAGES):
        venv.create(home, with_pip=True, clear=True)
        outcome = subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], capture_output=True, text=True)
        if outcome.returncode != 0:
            raise Unavailable(f"PySpark could not be installed: {outcome.stderr.strip().splitlines()[-1:]}")
        wanted.write_text("\n".join(PACKAGES))
    return python


def connector_jars() -> list[str]:
    """Return the jars of Spark's Kafka connector.  Raise Unavailable."""
    found = sorted(jars("spark-connector", CONNECTOR).glob("*.jar"))
    return [str(jar) for jar in found if jar.name.startswith(CONNECTOR_JARS)]


def run_job(do: str, **order: object) -> dict[str, Any]:
    """Run the job `do` of `spark_jobs` in its own process, and return what it prints last."""
    python = spark_python()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "src")]),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop("SPARK_HOME", None)
    with tempfile.TemporaryDirectory(prefix="tidemill-spark-") as directory:
        outcome = subprocess.run(
            [python, "-m", "benchmarks.spark_jobs", json.dumps({"do": do, **order})],
            capture_output=True, text=True, timeout=JOB_SECONDS_MAX, env=environment, cwd=directory,
        )  # fmt: skip
    if outcome.returncode != 0:
        raise RuntimeError(f"the Spark job failed:\n{outcome.stderr[-4_000:]}")
    figures: dict[str, Any] = json.loads(outcome.stdout.splitlines()[-1])
    return figures
