"""One program reads and writes topics on every kind of Spark cluster: several processes, standalone, Connect.

The other tests of this folder run in one process, `local[2]`.  In the test suite, the commands of docs/spark.md use a
standalone cluster and Connect, and `tests/fault/spark_jobs` uses separate executors; the tests here do so in `make
soak`, with two workers.
"""

import os
import re
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import confluent_kafka
import pyspark
import pytest

from tests.fault.extent import soak_only
from tests.integration.spark.conftest import SOURCE

HOME: Final = Path(pyspark.__file__).parent
JOB: Final = Path(__file__).with_name("cluster_job.py")
RECORDS: Final = 200
SECONDS_MAX: Final = 120
CONFIGURATION: Final = (
    "spark.ui.enabled=false",
    "spark.driver.host=127.0.0.1",
    "spark.driver.bindAddress=127.0.0.1",
    "spark.sql.shuffle.partitions=2",
)
CONFIGURED: Final = [word for setting in CONFIGURATION for word in ("--conf", setting)]

Environment = Mapping[str, str]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """Return the environment of all Spark processes; workers use the same Python, in which they find Tidemill."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(SOURCE),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_DIRS": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
    }


@pytest.fixture
def run_job(bootstrap: str, make_topic, produce) -> Callable[[list[str], Environment], None]:
    """Return a function that runs the job and checks the topic that it wrote."""
    source, target = make_topic(partitions=2), make_topic(partitions=3)
    produce(source, [{"key": f"k{n}", "value": f"v{n}", "partition": n % 2} for n in range(RECORDS)])

    def run(command: list[str], environment: Environment) -> None:
        done = subprocess.run(
            [*command, str(JOB), bootstrap, source, target],
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert 0 == done.returncode, done.stderr[-4_000:]
        written = sorted((record.key(), record.value()) for record in _records(bootstrap, target, partitions=3))
        assert sorted((b"k%d" % n, b"V%d!" % n) for n in range(RECORDS)) == written

    return run


@soak_only
def test_a_job_runs_in_several_processes(run_job, environment: Environment) -> None:
    """
    Two executors, which are separate processes, run the tasks.
    """
    run_job(_submit("local-cluster[2,1,1024]"), environment)


@soak_only
def test_a_job_runs_on_a_standalone_cluster(run_job, environment: Environment) -> None:
    """
    `spark-submit` sends the job to a master with two workers.
    """
    with ExitStack() as stack:
        master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        address = stack.enter_context(_daemon(master, r"Starting Spark master at (spark://\S+)", environment))
        worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
        for _ in range(2):
            limits = ["--cores", "1", "--memory", "1g", address]
            stack.enter_context(_daemon([*worker, *limits], r"(Successfully registered with master)", environment))
        run_job(_submit(address), environment)


@soak_only
def test_a_job_runs_through_spark_connect(run_job, environment: Environment) -> None:
    """
    The program has no JVM of its own: it sends its plans to a Spark Connect server.
    """
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
    port = _free_port()
    server = [
        "org.apache.spark.deploy.SparkSubmit",
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]
    binding = ["spark.connect.grpc.binding.address=127.0.0.1", f"spark.connect.grpc.binding.port={port}"]
    configured = [*CONFIGURED, *(word for setting in binding for word in ("--conf", setting))]
    command = [*server, "--master", "local[2]", *configured, "spark-internal"]
    with _daemon(command, r"(Spark Connect server started at)", environment):
        run_job([sys.executable], {**environment, "SPARK_REMOTE": f"sc://127.0.0.1:{port}"})


def _submit(master: str) -> list[str]:
    return [str(HOME / "bin" / "spark-submit"), "--master", master, *CONFIGURED]


@contextmanager
def _daemon(command: list[str], ready: str, environment: Environment) -> Iterator[str]:
    """Run a Spark process, wait until its log matches `ready`, and yield the first group of the match."""
    process = subprocess.Popen(
        [str(HOME / "bin" / "spark-class"), *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        log = b""
        while (found := re.search(ready, log.decode(errors="replace"))) is None:
            is_readable = select.select([process.stdout], [], [], SECONDS_MAX)[0]
            more = os.read(process.stdout.fileno(), 1 << 16) if is_readable else b""
            log += more
            assert more, f"{command[0]} does not start:\n{log.decode(errors='replace')[-4_000:]}"
        yield found[1]
    finally:
        process.terminate()
        process.stdout.close()
        process.wait(30)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _records(bootstrap: str, topic: str, partitions: int) -> list[confluent_kafka.Message]:
    """Return all records of the topic."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(partitions)])
    records, ended = [], 0
    while ended < partitions:
        record = consumer.poll(10)
        assert record is not None, f"{topic} has no end"
        if record.error() is None:
            records.append(record)
        else:
            assert record.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, record.error()
            ended += 1
    consumer.close()
    return records
