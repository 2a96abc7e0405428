"""A leadership transfer ends after TRANSFER_MS, measured from its first tick."""

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.leadership_transfer import TRANSFER_MS, LeadershipTransfer

TARGET = ReplicaKey(BrokerId(2), DirectoryId(b"2" * 16))


def test_a_transfer_that_takes_too_long_is_cancelled() -> None:
    """A transfer that takes longer than TRANSFER_MS is cancelled, so that the leader accepts proposals again."""
    transfer = LeadershipTransfer()
    transfer.begin(TARGET)
    targets = []

    for now_ms in (1_000, 1_000 + TRANSFER_MS - 1, 1_000 + TRANSFER_MS):
        transfer.tick(now_ms)
        targets.append(transfer.target)

    assert [TARGET, TARGET, None] == targets


def test_a_second_transfer_has_the_whole_time() -> None:
    """A second transfer has the full TRANSFER_MS, whatever the deadline of the cancelled one was."""
    transfer = LeadershipTransfer()
    transfer.begin(TARGET)
    transfer.tick(1_000)
    transfer.cancel()
    transfer.begin(TARGET)

    transfer.tick(1_000 + TRANSFER_MS)

    assert TARGET == transfer.target
