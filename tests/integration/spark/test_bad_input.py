"""
Bad input to a query causes an error that is one clear sentence, and no record is lost when a broker fails.

`docs/spark.md` quotes the sentences.  The tests of this file produce each of them, so the page cannot differ.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from tests.integration.documents.page import quotes_of
from tests.integration.spark.conftest import BrokerProcess
from tidemill.columnar import source_options
from tidemill.columnar.offset_bound import JsonOffsets

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "spark.md"
QUOTES = quotes_of(GUIDE, "## Errors")
NO_BROKER = "127.0.0.1:1"  # a port that nothing listens on
ROWS = 400
# All rows, and rows per Arrow batch.  A row has a thousand bytes, so the rows do not fit into the buffers between Spark
# and its workers.
WRITTEN, BATCH_ROWS = 60_000, 1_000
BUFFER = {"kafka.buffer.memory": str(4 << 20)}
TASKS = 8  # more than the session has cores, so some tasks start after the first has ended


@dataclass(frozen=True)
class Session:
    """What a case needs: a Spark session, a broker, and a topic with five records in each of two partitions."""

    spark: object
    bootstrap: str
    topic: str

    def read(self, schema=None, **options):
        reader = self.spark.read.format("tidemill").option("kafka.bootstrap.servers", self.bootstrap)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.options(**{"subscribe": self.topic, **options}).load().count()

    def write(self, *columns, mode="append", **options):
        writer = self.spark.range(1).selectExpr(*columns).write.format("tidemill")
        writer = writer.options(**{"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic, **options})
        (writer if mode is None else writer.mode(mode)).save()

    def stream(self, to="noop", trigger=None, **options):
        reader = self.spark.readStream.format("tidemill").option("kafka.bootstrap.servers", self.bootstrap)
        frame = reader.options(**{"subscribe": self.topic, **options}).load()
        query = frame.writeStream.format(to).outputMode("update").trigger(**(trigger or {"availableNow": True})).start()
        try:
            query.awaitTermination(120)
        finally:
            query.stop()

    def delete_records(self, before):
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for deleted in admin.delete_records([TopicPartition(self.topic, 0, before)]).values():
            deleted.result(60)


def read_after_deletion(session):
    offsets: JsonOffsets = {session.topic: {"0": 1, "1": -2}}
    session.delete_records(before=3)
    session.read(startingOffsets=str(offsets).replace("'", '"'))


class HttpError(StreamRequestHandler):
    """Sends the response of a web server to a request that is not HTTP."""

    def handle(self):
        self.wfile.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


@contextmanager
def http_server():
    """Respond to every connection as a web server does, and yield HOST:PORT."""
    with TCPServer(("127.0.0.1", 0), HttpError) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def read_from_http_server(session):
    with http_server() as address:
        options = {"kafka.bootstrap.servers": address, "kafka.socket.connection.setup.timeout.ms": "1000"}
        session.read(**options)


CASES: dict[str, Callable[[Session], object]] = {
    "an address without a broker": lambda s: s.read(**{"kafka.bootstrap.servers": NO_BROKER}),
    "the port of something else": read_from_http_server,
    "TLS on a port without TLS": lambda s: s.read(**{"kafka.security.protocol": "SSL"}),
    "a store of Java": lambda s: s.read(
        **{"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "kafka.jks"}
    ),
    "a variable that is not set": lambda s: s.read(**{"kafka.client.id": "env:NOT_SET"}),
    "reading a topic that does not exist": lambda s: s.read(subscribe="ordres"),
    "writing to a topic that does not exist": lambda s: s.write("'v' AS value", topic="ordres"),
    "a value that an option does not take": lambda s: s.read(startingOffsets="-10w"),
    "a consumer's setting": lambda s: s.read(**{"kafka.auto.offset.reset": "earliest"}),
    "an end for a stream": lambda s: s.stream(endingOffsets="latest"),
    "a schema with other types": lambda s: s.read(schema="value string"),
    "writing without a mode": lambda s: s.write("'v' AS value", mode=None),
    "writing a column of another type": lambda s: s.write("1 AS value"),
    "less than acks=all": lambda s: s.write("'v' AS value", **{"kafka.acks": "1"}),
    "due times for a topic of another kind": lambda s: s.write("'v' AS value", "current_timestamp() AS deliver_at"),
    "a partition that the topic does not have": lambda s: s.write("'v' AS value", "9 AS partition"),
    "a record over the topic's limit": lambda s: s.write("repeat('x', 1100000) AS value"),
    "a record over the request's limit": lambda s: s.write(
        "repeat('x', 600000) AS value", **{"kafka.max.request.size": "500000"}
    ),
    "records that retention has removed": read_after_deletion,
    "real-time mode": lambda s: s.stream(to="console", trigger={"realTime": "5 seconds"}),
}
OF_OTHER_TESTS = {
    "a misspelt option",
    "a broker that goes away during a read",
    "a broker that goes away during a write",
    "workers without Tidemill",
}


@pytest.fixture
def session(spark, bootstrap, make_topic, produce):
    topic = make_topic(partitions=2)
    produce(topic, [{"value": b"v", "partition": p} for p in (0, 1) for _ in range(5)])
    return Session(spark, bootstrap, topic)


def test_every_error_of_the_guide_is_produced_here():
    """`docs/spark.md` quotes only errors that a test of this file has produced."""
    assert CASES.keys() | OF_OTHER_TESTS == QUOTES.keys()


@pytest.mark.parametrize("title", CASES)
def test_an_error_is_the_sentence_of_the_guide(session, title):
    """The error contains the sentence that `docs/spark.md` explains, and no traceback of a Python worker."""
    with pytest.raises(Exception) as failed:
        CASES[title](session)

    assert QUOTES[title].search(str(failed.value)), str(failed.value)
    assert "Traceback" not in str(failed.value)


@pytest.mark.parametrize("parse", [source_options.for_batch, source_options.for_stream])
def test_a_misspelt_option_is_named_in_the_log(parse, caplog):
    """An unknown option is ignored, as in Spark's Kafka connector; the log names the nearest known one."""
    parse({"kafka.bootstrap.servers": NO_BROKER, "subscribe": "t", "startingoffset": "earliest"})

    assert QUOTES["a misspelt option"].search(caplog.text)


def test_workers_without_tidemill_do_not_know_the_format(tmp_path):
    """Spark looks for the source in its Python workers, so a PYSPARK_PYTHON without Tidemill does not find it."""
    program = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()\n"
        "spark.read.format('tidemill').load()\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert 0 != done.returncode
    assert QUOTES["workers without Tidemill"].search(done.stderr), done.stderr[-3_000:]


@pytest.fixture
def mortal(tmp_path):
    """
    Yield a separate broker that a test may kill, with ROWS numbers in the eight partitions of the topic `rows`, and an
    empty topic `written`.
    """
    import confluent_kafka
    from confluent_kafka.admin import AdminClient, NewTopic

    broker = BrokerProcess(tmp_path)
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for created in admin.create_topics([NewTopic("rows", TASKS, 1), NewTopic("written", 2, 1)]).values():
            created.result(30)
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(ROWS):
            producer.produce("rows", b"%d" % number, partition=number % TASKS)
        assert 0 == producer.flush(60)
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def small_batches(spark):
    """
    Let rows travel between Spark and its workers in small Arrow batches, so that a sink begins before it has all rows.
    """
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    spark.conf.set(key, str(BATCH_ROWS))
    yield
    spark.conf.set(key, before)


def killing(frame, broker, flag, *, stored_in=None):
    """
    Return the rows of `frame`.  A task that passes rows on kills the broker, but only once, and touches `flag`.

    The task kills the broker before its first rows or, if `stored_in` names a topic, once the sink has stored rows in
    that topic.
    """
    pid, bootstrap = broker.process.pid, broker.bootstrap

    def has_records():
        import tidemill.arrow

        read = tidemill.arrow.read(stored_in, bootstrap_servers=bootstrap, columns=["offset"])
        return any(rows.num_rows for rows in read)

    def kill(batches):
        for rows in batches:
            if rows.num_rows and not flag.exists() and (stored_in is None or has_records()):
                flag.touch()
                os.kill(pid, signal.SIGKILL)
            yield rows

    return frame.mapInArrow(kill, frame.schema)


def numbered(spark):
    """Return a frame of one task with WRITTEN numbers as text, padded to a thousand bytes."""
    return spark.range(0, WRITTEN, 1, 1).select(F.rpad(F.col("id").cast("string"), 1_000, " ").alias("value"))


def rows_of(spark, broker, topic="rows", **options):
    reader = (
        spark.read.format("tidemill").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", topic)
    )
    return reader.schema("value binary").options(**options).load()


def values_in(spark, broker, topic="rows"):
    return sorted(int(row.value) for row in rows_of(spark, broker, topic).collect())


def test_a_broker_that_goes_away_during_a_read_fails_it_and_the_next_read_has_everything(spark, mortal, tmp_path):
    """A read fails after kafka.default.api.timeout.ms, and the error names the broker that is down."""
    frame = killing(rows_of(spark, mortal, **{"kafka.default.api.timeout.ms": "1500"}), mortal, tmp_path / "killed")

    with pytest.raises(Exception) as failed:
        frame.collect()
    mortal.stop()
    mortal.start()

    assert QUOTES["a broker that goes away during a read"].search(str(failed.value)), str(failed.value)
    assert "Traceback" not in str(failed.value)
    assert [*range(ROWS)] == values_in(spark, mortal)


def test_a_broker_that_goes_away_during_a_write_fails_it_and_the_next_write_completes_it(
    spark, mortal, small_batches, tmp_path
):
    """
    A write fails after kafka.delivery.timeout.ms.  A second write stores every row, some of them for the second time.
    """
    options = {"topic": "written", "kafka.bootstrap.servers": mortal.bootstrap, **BUFFER}
    killed = killing(numbered(spark), mortal, tmp_path / "killed", stored_in="written")

    with pytest.raises(Exception) as failed:
        hurried = {**options, "kafka.delivery.timeout.ms": "1500"}
        killed.write.format("tidemill").mode("append").options(**hurried).save()
    mortal.stop()
    mortal.start()
    numbered(spark).write.format("tidemill").mode("append").options(**options).save()

    stored = values_in(spark, mortal, "written")
    assert QUOTES["a broker that goes away during a write"].search(str(failed.value)), str(failed.value)
    assert "Traceback" not in str(failed.value)
    assert WRITTEN < len(stored)  # the failed write had stored some rows
    assert [*range(WRITTEN)] == sorted({*stored})


def test_a_write_waits_for_a_broker_that_comes_back(spark, mortal, small_batches, tmp_path):
    """
    Within kafka.delivery.timeout.ms, the task waits for the broker, and every row is stored once, because producers are
    idempotent.
    """
    flag = tmp_path / "killed"
    killed = killing(numbered(spark), mortal, flag, stored_in="written")

    def restart():
        mortal.process.wait()
        if flag.exists():
            mortal.stop()
            mortal.start()

    thread = threading.Thread(target=restart)
    thread.start()
    options = {"topic": "written", "kafka.bootstrap.servers": mortal.bootstrap, **BUFFER}
    killed.write.format("tidemill").mode("append").options(**options).save()
    thread.join()

    assert flag.exists()
    assert [*range(WRITTEN)] == values_in(spark, mortal, "written")
