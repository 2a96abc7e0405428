"""`tidemill pipeline run` as a process with its own Spark session, and its output when a run fails."""

import json
import os
import subprocess
import sys

import pytest

from tests.fault.extent import soak_only
from tests.integration.spark.conftest import SOURCE
from tidemill.cli.spark_error import sentence
from tidemill.spark import pipelines


def test_a_command_finds_differences(bootstrap, make_topic, produce, tmp_path):
    """
    A command prints the report on stdout and everything else on stderr, and exits with 1 because the topics differ.
    """
    topic, other = make_topic(), make_topic()
    produce(topic, [{"key": b"k", "value": b"%d" % n, "timestamp": n + 1} for n in range(20)])
    produce(other, [{"key": b"k", "value": b"%d" % (n + (n == 7)), "timestamp": n + 1} for n in range(20)])
    command = [sys.executable, "-m", "tidemill", "pipeline", "run", "audit", "--topic", topic, "--target", other]
    options = ["--state", str(tmp_path / "state"), "--bootstrap", bootstrap, "--master", "local[2]", "--json"]

    finished = subprocess.run(
        [*command, *options],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert 1 == finished.returncode, finished.stderr
    report = json.loads(finished.stdout)
    assert (20, 20, 1, False) == tuple(
        report[name] for name in ("source_records", "target_records", "differing_ranges", "is_success")
    )
    (ranges, differences) = report["tables"]
    assert [{"partition": 0, "start": 0, "end": 20, "source_records": 20, "target_records": 20}] == ranges["rows"]
    assert [(7, "value")] == [(row["offset"], row["what"]) for row in differences["rows"]]
    events = [json.loads(line) for line in finished.stderr.splitlines() if line.startswith("{")]
    compared = [it for it in events if it["event"] == "progress" and it["phase"] == "comparing"]
    assert [(0, 20), (20, 0)] == [(it["records"], it["lag"]) for it in (compared[0], compared[-1])]
    failure = "1 of 1 ranges differ; the first is partition 0, offsets 0 to 19"
    assert {"event": "error", "exit_code": 1, "error": None, "message": failure} == events[-1]


@soak_only
def test_a_plan_reads_offsets_only(spark, bootstrap, make_topic, produce, tmp_path):
    """
    The plan of an audit shows the offsets of both topics, and writes nothing.  Topics with different numbers of
    partitions are refused.
    """
    topic, other, wide = make_topic(2), make_topic(2), make_topic(3)
    produce(topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(5)])
    given = {"state": tmp_path / "state", "bootstrap_servers": bootstrap, "topic": topic}

    plan = pipelines.audit.plan(spark, target=other, range_records=2, **given)

    assert {"records": "5", "steps": "1", "by": "offset"}.items() <= dict(plan.rows).items()
    assert [(0, 0, 3, 0, 0), (1, 0, 2, 0, 0)] == plan.tables[0].rows
    with pytest.raises(ValueError, match=r"2 partitions and target=.* 3, so offsets cannot be compared: use by=key"):
        pipelines.audit.plan(spark, target=wide, **given)
    with pytest.raises(ValueError, match="an audit compares what is there"):
        pipelines.audit.plan(spark, target=other, is_continuous=True, **given)
    assert [] == [*tmp_path.iterdir()]


@soak_only
def test_an_error_of_spark_is_one_sentence(spark, bootstrap, make_topic):
    """
    If the source refuses an option inside Spark, the command shows the source's own message.
    """
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": make_topic(), "startingOffsets": "soon"}

    with pytest.raises(Exception, match="soon") as raised:
        spark.read.format("tidemill").options(**options).load().count()

    assert """Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}} for option 'startingOffsets', got soon""" == (
        sentence(raised.value)
    )
