"""Groups are found where Kafka's clients and tools look for them."""

import pytest

from tidemill.coordinator.group.group_partition import partition_for


@pytest.mark.parametrize(
    ("group_id", "of_8", "of_50"),
    [
        ("", 0, 0),
        ("g", 7, 3),
        ("billing", 5, 9),
        ("flights-demo", 3, 43),
        ("polygenelubricants", 0, 0),
        ("überfällig", 7, 47),
        ("🌊-tide", 5, 17),
        ("a-much-longer-group-name-0123456789", 1, 45),
    ],
)
def test_a_group_lies_where_kafkas_own_hash_puts_it(group_id, of_8, of_50):
    """
    Figures of Apache Kafka 4.3.1's own code, with names whose hash is negative, the most negative, or not ASCII.
    """
    assert partition_for(group_id, 8) == of_8
    assert partition_for(group_id, 50) == of_50
