"""Secrets of the connection appear in nothing that Spark prints, stores or raises."""

import json
import socket

import pytest

LITERAL = {
    "kafka.sasl.password": "hunter2",
    "kafka.sasl.jaas.config": 'x.ScramLoginModule required username="a" password="hunter2";',
    "kafka.sasl.oauthbearer.client.secret": "hunter2",
    "kafka.sasl.oauthbearer.extensions": "logicalCluster=hunter2",
    "kafka.ssl.key.pem": "hunter2",
    "kafka.ssl.keystore.key": "hunter2",
}
"""Secrets in options.  The broker has neither TLS nor SASL, so they have no effect."""


@pytest.fixture
def reference(tmp_path):
    """Return a setting whose value is a secret that both the driver and the executors look up."""
    path = tmp_path / "client-id"
    path.write_text("hunter2\n")
    return {"kafka.client.id": f"file:{path}"}


@pytest.fixture
def topic(make_topic, produce):
    name = make_topic()
    produce(name, [{"value": b"a"}, {"value": b"b"}])
    return name


def plans_in_the_web_pages(spark):
    """Return the plans that Spark stores for its web pages and its event log."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    return [executions.apply(index).physicalPlanDescription() for index in range(executions.size())]


def test_a_batch_query_shows_no_secret(spark, bootstrap, topic, reference, capfd):
    """
    Every kind of explained plan, the plans that Spark stores, and the log contain no secrets, not even those that are
    given as plain values instead of references.
    """
    frame = (
        spark.read.format("tidemill")
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **LITERAL, **reference})
        .load()
    )

    count = frame.count()
    frame.createOrReplaceTempView("secrets")  # a command, whose plan contains the options of the source
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        frame.explain(mode)
    stored = plans_in_the_web_pages(spark)
    spark.catalog.dropTempView("secrets")
    printed = capfd.readouterr()

    assert 2 == count
    assert any(f"subscribe={topic}" in plan for plan in stored)  # the plan of the command does contain the options
    assert "hunter2" not in "".join([*stored, printed.out, printed.err])


def test_a_streaming_query_shows_no_secret(spark, bootstrap, topic, reference, tmp_path, capfd):
    """
    The progress, the plan, the checkpoint and the log of a streaming query contain no secrets.
    """
    checkpoint = tmp_path / "checkpoint"
    query = (
        spark.readStream.format("tidemill")
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **LITERAL, **reference})
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    query.explain(extended=True)
    progress = [json.loads(one.json) for one in query.recentProgress]
    stored = [path.read_bytes().decode(errors="replace") for path in checkpoint.rglob("*") if path.is_file()]
    printed = capfd.readouterr()

    assert [2] == [one["numInputRows"] for one in progress if one["numInputRows"]]
    assert "hunter2" not in "".join([json.dumps(progress), *stored, printed.out, printed.err])


def test_a_wrong_address_is_one_sentence_without_secrets(spark, reference):
    """
    A query at a wrong address fails early; the error names bootstrap.servers and shows no secret.
    """
    with socket.socket() as held:  # bound but not listening, so that nothing else gets the port
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        options = {"kafka.bootstrap.servers": address, "subscribe": "t", **LITERAL, **reference}
        options["kafka.socket.connection.setup.timeout.ms"] = "500"
        frame = spark.read.format("tidemill").options(**options).load()

        with pytest.raises(
            Exception, match=f"no broker of bootstrap.servers={address} responded within 500 ms"
        ) as failed:
            frame.count()

    assert "hunter2" not in str(failed.value)


def test_a_missing_file_is_one_sentence_with_the_setting(spark, bootstrap, topic, tmp_path):
    """
    A reference to a file that does not exist fails when the connection is opened; the error names the setting and the
    file.
    """
    missing = tmp_path / "missing"
    frame = (
        spark.read.format("tidemill")
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafka.client.id": f"file:{missing}"})
        .load()
    )

    with pytest.raises(Exception, match=f"client.id=file:{missing}: the file cannot be read: No such file"):
        frame.count()


@pytest.fixture
def events(spark, tmp_path):
    """Write the event log of the running session to a directory; `events()` ends it and returns its text."""
    context, jvm = spark.sparkContext._jsc.sc(), spark._jvm
    conf = context.conf().clone().set("spark.eventLog.compress", "false").set("spark.eventLog.rolling.enabled", "false")
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "secrets", jvm.scala.Option.empty(), jvm.java.net.URI(tmp_path.as_uri()), conf, context.hadoopConfiguration()
    )
    listener.start()
    context.addSparkListener(listener)

    def end():
        context.listenerBus().waitUntilEmpty()
        context.removeSparkListener(listener)
        listener.stop()
        return "".join(path.read_text() for path in tmp_path.glob("*secrets*"))

    return end


def test_a_batch_write_shows_no_secret(spark, bootstrap, topic, reference, events, capfd):
    """
    The plans of a write, the event log and the printed output contain no secrets, not even those that are
    given as plain values instead of references.
    """
    sink = spark.range(3).selectExpr("CAST(id AS STRING) AS value").write.format("tidemill").mode("append")

    sink.options(**{"kafka.bootstrap.servers": bootstrap, "topic": topic, **LITERAL, **reference}).save()

    stored, logged, printed = plans_in_the_web_pages(spark), events(), capfd.readouterr()
    assert "SparkListenerSQLExecutionStart" in logged
    assert "hunter2" not in "".join([*stored, logged, printed.out, printed.err])


def test_a_streaming_write_shows_no_secret(spark, bootstrap, topic, make_topic, reference, events, tmp_path, capfd):
    """
    The progress, the plan, the checkpoint and the event log of a query from topic to topic contain no secrets.
    """
    checkpoint = tmp_path / "checkpoint"
    options = {"kafka.bootstrap.servers": bootstrap, **LITERAL, **reference}
    stream = spark.readStream.format("tidemill").options(**options).option("subscribe", topic)
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .select("value")
        .writeStream.format("tidemill")
        .options(**options)
        .option("topic", make_topic())
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    query.explain(extended=True)

    progress = [one.json for one in query.recentProgress]
    stored = [path.read_bytes().decode(errors="replace") for path in checkpoint.rglob("*") if path.is_file()]
    logged, printed = events(), capfd.readouterr()
    assert progress and stored
    assert "QueryProgressEvent" in logged
    assert "hunter2" not in "".join([*progress, *stored, logged, printed.out, printed.err])


def test_an_error_of_a_write_shows_no_secret(spark, bootstrap, reference):
    """
    The errors of a write that is refused on the driver, and of one whose row is refused in a task, describe the problem
    and show no secret.
    """
    options = {"kafka.bootstrap.servers": bootstrap, **LITERAL, **reference}
    rows = spark.range(1).selectExpr("'v' AS value", "'no-such-topic' AS topic")

    failures = []
    for more in ({"topic": "no-such-topic"}, {}):
        with pytest.raises(Exception, match="topic 'no-such-topic'") as failed:
            rows.write.format("tidemill").mode("append").options(**options, **more).save()
        failures.append(str(failed.value))

    assert "hunter2" not in "".join(failures)
