"""The counts of a share's records, with and without what only the leader knows."""

from tests.unit.share.runs import run
from tests.unit.share.test_leases import Hand
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.progress import Progress, progress
from tidemill.share.record_status import RecordState


def test_counts_from_the_durable_state() -> None:
    """
    Offsets without a run are available; those at or above the high watermark do not count.
    """
    hand = Hand()
    hand.share.set_runs(
        [
            run(2, 4, RecordState.ACKNOWLEDGED),
            run(5, 6, RecordState.AVAILABLE, delivery_count=1, release_at=500),
            run(6, 9, RecordState.ARCHIVING),
            run(12, 40, RecordState.AVAILABLE, delivery_count=1),
        ]
    )

    assert Progress(available=14, delayed=1, archiving=3) == progress(hand.share, None, 20, wall=499)
    assert Progress(available=15, archiving=3) == progress(hand.share, None, 20, wall=500)
    assert Progress() == progress(hand.share, None, 0, wall=0)


def test_claims_replace_the_durable_state() -> None:
    """
    Held records are not available, and a proposed decision counts as if it were committed.
    """
    hand = Hand(has_dead_letters=True)
    hand.acquire("a", (0, 10))
    assert Progress(available=5, held=10) == progress(hand.share, hand.leases, 15, wall=0)
    hand.say("a", 0, 2, Acknowledgement.ACCEPT)
    hand.say("a", 2, 3, Acknowledgement.REJECT)
    hand.say("a", 3, 5, Acknowledgement.RELEASE)

    before = progress(hand.share, hand.leases, 15, wall=0)
    hand.commit()

    assert Progress(available=7, held=5, archiving=1) == before
    assert before == progress(hand.share, hand.leases, 15, wall=0)
