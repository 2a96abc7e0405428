"""ShareFetch when few of a partition's records are available, and the others between them are finished."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.share_member import STATIC, WAIT_MS, ShareMember, acquired_records, configure_group
from tidemill.share.acknowledgement import Acknowledgement

PARTITIONS = 2
RECORDS = 1_000  # in each partition; every tenth is released, the others are accepted
IN_A_BATCH = 10
WANTED = 50


@pytest.fixture
def consumer() -> ShareMember:
    """A member of a group that has released every tenth record, and has finished the others."""
    world = BrokerWorld(STATIC)
    world.create("jobs", partitions=PARTITIONS)
    configure_group(world, share_auto_offset_reset="earliest")
    for number in range(PARTITIONS):
        for _ in range(RECORDS // IN_A_BATCH):
            world.produce("jobs", *([b"x" * 1_000] * IN_A_BATCH), number=number)
    made = ShareMember(world)
    made.join("jobs")
    taken = 0
    while records := acquired_records(made.fetch(max_records=RECORDS, max_wait_ms=0 if taken else WAIT_MS)):
        taken += len(records)
    assert PARTITIONS * RECORDS == taken
    decisions = [
        decision
        for first in range(0, RECORDS, 10)
        for decision in ((first, first + 8, Acknowledgement.ACCEPT), (first + 9, first + 9, Acknowledgement.RELEASE))
    ]
    made.fetch(dict.fromkeys(range(PARTITIONS), decisions), max_records=0)
    return made


def test_scattered_records_fill_a_response(consumer: ShareMember) -> None:
    """
    A fetch reads more bytes if only some of the records are available, and finished ones do not count against its
    limit.
    """
    rounds, found = 0, 0
    while records := acquired_records(consumer.fetch(max_records=WANTED)):
        rounds += 1
        found += len(records)

    assert PARTITIONS * RECORDS // 10 == found
    assert rounds <= found // WANTED + 2
