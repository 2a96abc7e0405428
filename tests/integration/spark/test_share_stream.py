"""`mode=share` with a real broker: a streaming query processes the records of a share group."""

import json
import uuid
from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.fault.share_groups.share_lag import lag_of
from tidemill.spark import queue

PARTITIONS = 3


@pytest.fixture
def jobs(bootstrap, make_topic, produce):
    """`jobs(count)` creates a topic with numbered records and a share group, and returns the options of a stream."""

    def make(count, **configs):
        topic, group = make_topic(partitions=PARTITIONS), f"workers-{uuid.uuid4().hex[:8]}"
        produce(topic, [{"value": b"%d" % n, "partition": n % PARTITIONS} for n in range(count)])
        configs = {"share.auto.offset.reset": "earliest", **configs}
        entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in configs.items()]
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.incremental_alter_configs([resource])[resource].result(30)
        return {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "mode": "share", "group": group}

    return make


def stream(spark, options, **more):
    return spark.readStream.format("tidemill").options(**options, **more).load()


def run(rows, directory, each):
    """Run a query with Trigger.AvailableNow, and call `each(batch)` with the DataFrame of each micro-batch."""
    writer = rows.writeStream.foreachBatch(lambda batch, _: each(batch))
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()


def numbers(batch):
    return [int(row.value) for row in batch.select("value").collect()]


def test_rows_are_acknowledged_rejected_or_retried(spark, bootstrap, jobs, tmp_path):
    """
    A function rejects some rows and retries others; the query goes on, and all other rows are acknowledged when their
    micro-batch is complete.
    """
    options = jobs(30)

    def work(row):
        if int(row.value) % 10 == 1:
            raise queue.Reject("cannot be done")
        if int(row.value) % 10 == 2 and row.deliveryCount == 1:
            raise queue.Retry(delay_seconds=0)
        return {"number": int(row.value), "attempt": row.deliveryCount}

    done = Counter()
    rows = queue.process(stream(spark, options), work, options, schema="number long, attempt int")
    run(rows, tmp_path, lambda batch: done.update((row.number, row.attempt) for row in batch.collect()))

    expected = {(n, 2 if n % 10 == 2 else 1): 1 for n in range(30) if n % 10 != 1}
    assert expected == done
    assert 0 == lag_of(bootstrap, options["group"])


def test_a_failed_batch_is_delivered_again(spark, bootstrap, jobs, tmp_path):
    """
    The records of a batch that fails are released.  The next run delivers them in a later batch, with a higher delivery
    count, and the failed batch has none: its sink may have committed it.
    """
    options = jobs(6)
    counts = []

    def fail(batch):
        counts.append([row.deliveryCount for row in batch.collect()])
        raise RuntimeError("the sink is down")

    with pytest.raises(Exception, match="the sink is down"):
        run(stream(spark, options), tmp_path, fail)
    run(stream(spark, options), tmp_path, lambda batch: counts.append([row.deliveryCount for row in batch.collect()]))

    assert [[1] * 6, [], [2] * 6] == counts
    assert 0 == lag_of(bootstrap, options["group"])


def test_a_batch_may_be_read_twice(spark, bootstrap, jobs, tmp_path):
    """
    foreachBatch may use a batch several times: it rejects some of the rows, retries some, and writes the others.
    """
    minute = json.dumps({"kind": "constant", "first": 60_000})  # the default of a retry, which its delay replaces
    options = jobs(12, **{"tidemill.share.backoff": minute, "share.delivery.count.limit": "2"})
    done, decided = Counter(), []

    def each(batch):
        decided.append(queue.reject(batch.where("value = '3'"), options))
        decided.append(queue.retry(batch.where("value = '4'"), options, delay_seconds=0))
        done.update(numbers(batch.where("value NOT IN ('3', '4')")))

    run(stream(spark, options, maxOffsetsPerTrigger=5, minPartitions=4), tmp_path, each)

    assert {n: 1 for n in range(12) if n not in (3, 4)} == done
    assert 1 == sum(decided[0::2]), "one rejected"
    assert 2 == sum(decided[1::2]), "one retried, until its delivery limit"
    assert 0 == lag_of(bootstrap, options["group"])


def test_wrong_options_are_refused(spark, jobs, tmp_path):
    options = {**jobs(0), "startingOffsets": "earliest"}

    with pytest.raises(Exception, match="startingOffsets=earliest is not supported with mode=share"):
        run(stream(spark, options), tmp_path, numbers)


def test_an_exclusive_group_is_refused(spark, jobs, tmp_path):
    """The micro-batches of a query have different names, so an exclusive group would give the second one nothing."""
    options = jobs(1, **{"tidemill.share.mode": "exclusive"})

    with pytest.raises(Exception, match=f"group={options['group']} has tidemill.share.mode=exclusive"):
        run(stream(spark, options), tmp_path, numbers)


def test_a_batch_read_is_refused(spark, jobs):
    with pytest.raises(Exception, match="mode=share is not supported in batch reads"):
        spark.read.format("tidemill").options(**jobs(0)).load().count()


def test_a_consumer_group_is_refused(spark, bootstrap, jobs, tmp_path):
    """A group has one type: the name of a consumer group with members is no share group."""
    from confluent_kafka import Consumer

    options = jobs(1)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": options["group"], "log_level": 0})
    consumer.subscribe([options["subscribe"]])
    try:
        for _ in range(50):
            consumer.poll(0.2)
            if consumer.assignment():
                break
        with pytest.raises(Exception, match="it is a group of another type"):
            run(stream(spark, options), tmp_path, numbers)
    finally:
        consumer.close()
