"""Planning batches: each offset is in exactly one batch, whatever happens to the topic in the meantime."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.spark.pipelines.archive.test_batch_entry import entry
from tidemill.columnar.size_profile import SizeProfile
from tidemill.model.partition import TopicPartition
from tidemill.spark.pipelines.archive.batch_entry import ArchiveRefused, LostOffsets
from tidemill.spark.pipelines.archive.next_batch import (
    TopicBounds,
    bounded,
    check_division,
    everything,
    stored_bytes,
)

P0, P1, P2 = (TopicPartition("flights", n) for n in range(3))
ID = "ot_7obTDQB6bVuTKzx8fmg"


def bounds(latest, earliest=None, topic_id=ID):
    return TopicBounds(
        topic="flights", topic_id=topic_id, earliest={**dict.fromkeys(latest, 0), **(earliest or {})}, latest=latest
    )


def test_a_new_archive_begins_where_the_topic_does():
    """
    The first batch begins at the log start offsets; records that were removed before the first run do not count as
    lost.
    """
    batch = everything(None, bounds({P0: 10, P1: 0}, {P0: 4}))

    assert (0, {P0: 4, P1: 0}, {P0: 10, P1: 0}, ()) == (batch.number, batch.begins, batch.ends, batch.lost)
    assert (6, [P0]) == (batch.offset_count, batch.to_read)


def test_a_batch_begins_where_the_one_before_ends():
    """
    A partition that was added later begins at offset 0; if the run is limited with `until`, the partition is left for a
    later run.
    """
    last = entry(7, {0: (0, 10), 1: (5, 5)})
    now = bounds({P0: 12, P1: 9, P2: 3})

    batch = everything(last, now)
    limited = everything(last, now, until={P0: 11, P1: 9})

    assert (8, {P0: 10, P1: 5, P2: 0}, now.latest) == (batch.number, batch.begins, batch.ends)
    assert ({P0: 10, P1: 5}, {P0: 11, P1: 9}) == (limited.begins, limited.ends)
    assert everything(last, bounds({P0: 10, P1: 5})).is_empty


def test_removed_records_are_lost():
    """
    Offsets below the log start that are in no batch are lost, even if nothing of their range is left.
    """
    last = entry(0, {0: (0, 10), 1: (0, 10)})

    batch = everything(last, bounds({P0: 30, P1: 20, P2: 6}, {P0: 15, P1: 20, P2: 2}))

    assert (LostOffsets(partition=0, start=10, end=15), LostOffsets(partition=1, start=10, end=20)) == batch.lost[:2]
    assert (LostOffsets(partition=2, start=0, end=2),) == batch.lost[2:]
    assert (19, [P0, P2]) == (batch.offset_count, batch.to_read)
    assert {P0: 12, P1: 20, P2: 2} == batch.until({P0: 12, P1: 20, P2: 2}).starts


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        (bounds({P0: 10, P1: 9}, topic_id="other"), "was deleted and created again after batch 0 .*is other"),
        (bounds({P0: 10}, topic_id=None), "has no partition 1, which is archived up to offset 9"),
        (bounds({P0: 8, P1: 9}, topic_id=None), "partition 0 ends at offset 8, and is archived up to 10"),
    ],
)
def test_another_topic_of_the_same_name_is_refused(now, sentence):
    """
    The offsets of a topic that was deleted and created again refer to other records.  Topics of older brokers have no
    id, so partitions and end offsets are compared.
    """
    last = entry(0, {0: (0, 10), 1: (0, 9)})

    everything(last, bounds({P0: 10, P1: 9}))
    everything(last, bounds({P0: 10, P1: 9}, topic_id=None))
    with pytest.raises(ArchiveRefused, match=sentence):
        everything(last, now)
    with pytest.raises(ArchiveRefused, match="the target has topic 'flights'"):
        everything(last, replace(bounds({}), topic="planes"))


def test_another_division_is_refused():
    """
    An archive cannot be continued with another value of `partition_by`, because Spark could not read an archive with
    two directory layouts.
    """
    check_division(None, "none")
    check_division(entry(), "date,hour")
    with pytest.raises(ArchiveRefused, match="partition_by=none: the target has date,hour"):
        check_division(entry(), "none")


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 2_000)), min_size=1, max_size=4), st.data())
def test_batches_cover_every_offset_once(partitions, data):
    """
    Whatever the limits of a batch, and however the topic grows and loses records, the ranges of the batches are
    consecutive, every batch makes progress, and every offset is read, lost or still pending.
    """
    latest = {TopicPartition("flights", n): start + count for n, (start, count) in enumerate(partitions)}
    earliest = {TopicPartition("flights", n): start for n, (start, _) in enumerate(partitions)}
    last = None
    done = {partition: set(range(earliest[partition])) for partition in latest}
    for _ in range(6):
        pending = everything(last, bounds(latest, earliest))
        if pending.is_empty:
            break
        profiles = {
            one: SizeProfile((pending.starts[one], pending.ends[one]), (data.draw(st.integers(1, 10_000)),))
            for one in pending.to_read
            if data.draw(st.booleans())
        }
        records_max, bytes_max = data.draw(st.integers(1, 3_000)), data.draw(st.integers(1, 20_000))
        batch = bounded(pending, profiles, records_max=records_max, bytes_max=bytes_max)
        assert not batch.is_empty
        assert stored_bytes(batch, profiles) <= stored_bytes(pending, profiles)
        for partition in latest:
            lost = {o for one in batch.lost if one.partition == partition.partition for o in range(one.start, one.end)}
            read = set(range(batch.starts[partition], batch.ends[partition]))
            assert not lost & read and not (lost | read) & done[partition]
            done[partition] |= lost | read
            assert done[partition] == set(range(batch.ends[partition]))
            latest[partition] += data.draw(st.integers(0, 100))
            earliest[partition] = data.draw(st.integers(earliest[partition], latest[partition]))
        last = entry(batch.number, {one.partition: (batch.begins[one], batch.ends[one]) for one in batch.ends})
