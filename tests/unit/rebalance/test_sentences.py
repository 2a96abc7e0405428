"""Texts in sentences of plans."""

import pytest

from tidemill.model.broker_id import BrokerId
from tidemill.rebalance.sentences import brokers_text, counted, duration, is_or_are, percent, points


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (302_000, "5 min 2 s"),
        (3_600_000, "1 h"),
        (7_380_000, "2 h 3 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(milliseconds: int, text: str) -> None:
    """More would not help anyone to decide."""
    assert text == duration(milliseconds)


def test_numbers_agree_with_their_nouns() -> None:
    """Sentences are read by people."""
    assert ("1 shard", "2 shards", "0 shards") == tuple(counted(count, "shard") for count in (1, 2, 0))
    assert ("is", "are", "are") == tuple(map(is_or_are, (1, 2, 0)))
    assert ("broker 3", "brokers 3, 4") == (brokers_text([BrokerId(3)]), brokers_text([BrokerId(3), BrokerId(4)]))
    assert ("40 %", "0 %", "72 %") == (percent(2, 5), percent(0, 0), points(721))
