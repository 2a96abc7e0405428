"""Pacing: bytes a second for each copy."""

from tidemill.model.shard import ShardId
from tidemill.rebalance.pacing import send_rates

MIB = 1 << 20


def rates(limit: int, *ingest: int) -> list[int]:
    shared = send_rates(limit, {ShardId(number): rate for number, rate in enumerate(ingest)})
    return [shared[ShardId(number)] for number in range(len(ingest))]


def test_copies_share_the_limit_evenly() -> None:
    """Together they take the limit, and no more."""
    assert [25 * MIB] * 4 == rates(100 * MIB, 0, 0, 0, 0)
    assert [] == rates(100 * MIB)


def test_catch_up_gets_twice_the_ingest_rate_whatever_the_throttle() -> None:
    """A copy that is slower than its shard's producers would never end."""
    assert [20 * MIB] == rates(MIB, 10 * MIB)


def test_a_busy_shard_takes_from_the_share_of_the_others() -> None:
    """The limit holds as long as the others can give."""
    assert [80 * MIB, 10 * MIB, 10 * MIB] == rates(100 * MIB, 40 * MIB, 0, 0)


def test_the_others_never_stand_still() -> None:
    """Where busy shards take the whole limit, each other copy gets a tenth of an even share."""
    assert [200 * MIB, 5 * MIB] == rates(100 * MIB, 100 * MIB, 0)
