"""Executors deliver the acquired records, and no others."""

import pytest

from tests.unit.client.fake_cluster import FakeCluster, Partition, Topic
from tidemill.columnar import receipts, share_options
from tidemill.columnar.acquired_rows import AcquiredReader
from tidemill.columnar.receipts import Receipt
from tidemill.columnar.share_batch import Holder
from tidemill.columnar.share_work import AcquiredRange, ShareWork
from tidemill.model.partition import TopicPartition

GROUP = "a/b"  # the only part of a receipt that may contain a slash


@pytest.fixture
def cluster():
    with FakeCluster() as running:
        partition = Partition()
        for first in range(0, 3_000, 100):
            partition.append_records([b"%d" % n for n in range(first, first + 100)])
        running.topics["t"] = Topic(partitions={0: partition})
        yield running


def read(cluster: FakeCluster, columns: list[str], *ranges: tuple[int, int, int, str]) -> list[dict[str, object]]:
    (server,) = cluster.settings().bootstrap
    options = share_options.parse(
        {
            "kafka.bootstrap.servers": f"{server.host}:{server.port}",
            "kafka.default.api.timeout.ms": "2000",
            "subscribe": "t",
            "mode": "share",
            "group": GROUP,
        }
    )
    work = ShareWork(GROUP, "t", 0, None, tuple(AcquiredRange(*one) for one in ranges))
    found = AcquiredReader(options.source, columns).record_batches(work)
    return [row for rows in found for row in rows.to_pylist()]


def test_only_acquired_records_are_delivered(cluster):
    """Near ranges are read together, and distant ones apart; other records of the batches are left out."""
    rows = read(cluster, ["value", "deliveryCount"], (5, 7, 1, "m1"), (150, 151, 3, "m2"), (2_500, 2_502, 2, "m1"))

    wanted = [(5, 1), (6, 1), (150, 3), (2_500, 2), (2_501, 2)]
    assert [{"value": b"%d" % n, "deliveryCount": count} for n, count in wanted] == rows


def test_a_receipt_names_the_record_and_its_member(cluster):
    rows = read(cluster, ["receipt", "offset"], (5, 6, 1, "spark.run.1"), (9, 10, 1, "spark.run.2"))

    assert [(5, "spark.run.1"), (9, "spark.run.2")] == [
        (receipt.offset, receipt.holder.member) for row in rows if (receipt := receipts.parse(row["receipt"]))
    ]
    assert Receipt(GROUP, Holder(TopicPartition("t", 0), "spark.run.1"), 5) == receipts.parse(rows[0]["receipt"])


@pytest.mark.parametrize("text", [None, "", "t/0/5/m", "t/x/5/m/g"])
def test_another_text_is_no_receipt(text):
    with pytest.raises(ValueError, match="is not a receipt: pass the column `receipt` of the stream unchanged"):
        receipts.parse(text)
