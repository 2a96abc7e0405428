"""Thousands of records of a partition that are acknowledged alone: the rows stay small, and a restart loses nothing."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.share_member import STATIC, WAIT_MS, ShareMember, configure_group
from tidemill.broker.shares.share_openings import shares_of
from tidemill.model import errors
from tidemill.raft.entry import Entry
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.record_status import RecordState
from tidemill.share.share import Share
from tidemill.share.share_row import ROW_BYTES_MAX
from tidemill.storage.machine.share_machine import ShareMachine
from tidemill.wire.messages import share_acknowledge

RECORDS = 10_000
ACCEPT, RELEASE = Acknowledgement.ACCEPT, Acknowledgement.RELEASE


def share_of(world: BrokerWorld) -> Share:
    (share,) = shares_of(world.partition("jobs")).by_number.values()
    return share


def test_ten_thousand_scattered_acknowledgements_survive_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    One request acknowledges 10,000 records, every second one with another type.  It is answered when all its rows have
    committed, no row exceeds 64 KiB, and after a restart every record has its state (Pulsar #25540).
    """
    sizes: list[int] = []
    apply = ShareMachine.committed

    def committed(self: ShareMachine, entry: Entry) -> None:
        sizes.append(len(entry.payload or b""))
        apply(self, entry)

    monkeypatch.setattr(ShareMachine, "committed", committed)
    world = BrokerWorld({**STATIC, "group.share.max.partition.max.record.locks": str(RECORDS)})
    world.create("jobs")
    configure_group(world, share_auto_offset_reset="earliest", share_partition_max_record_locks=str(RECORDS))
    for _ in range(0, RECORDS, 1_000):
        world.produce("jobs", *[b"x"] * 1_000)
    consumer = ShareMember(world)
    consumer.join("jobs")
    assert RECORDS == len(consumer.receive(max_wait_ms=WAIT_MS, max_records=RECORDS, max_bytes=8 << 20))

    types = [RELEASE, ACCEPT] * (RECORDS // 2)
    partition = share_acknowledge.Request.Topic.Partition
    batch = partition.AcknowledgementBatch(first_offset=0, last_offset=RECORDS - 1, acknowledge_types=types)
    (topic_id,) = consumer.assigned
    topic = share_acknowledge.Request.Topic(
        topic_id=topic_id, partitions=[partition(partition_index=0, acknowledgement_batches=[batch])]
    )
    answer = consumer.client.ask(
        share_acknowledge.Request(
            group_id=consumer.group,
            member_id=consumer.name,
            share_session_epoch=consumer.session_epoch,
            topics=[topic],
        )
    )

    assert errors.NONE == answer.responses[0].partitions[0].error_code
    before = share_of(world)
    assert RECORDS == len(before.runs)
    assert [RecordState.AVAILABLE, RecordState.ACKNOWLEDGED] * (RECORDS // 2) == [it.value.state for it in before.runs]
    assert len(sizes) >= 4  # OPEN, and 10,000 runs of 15 B
    assert max(sizes) <= ROW_BYTES_MAX

    again = world.restarted()
    assert before == share_of(again)
    other = ShareMember(again)
    other.join("jobs")
    got = other.receive(max_wait_ms=WAIT_MS, max_records=RECORDS, max_bytes=8 << 20)
    assert list(range(0, RECORDS, 2)) == [one.offset for one in got]
    assert {2} == {one.delivery_count for one in got}
