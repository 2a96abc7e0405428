"""Groups are mapped to partitions as in Kafka."""

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
def test_groups_map_to_the_same_partition_as_in_kafka(group_id, of_8, of_50):
    """The expected values come from Apache Kafka 4.3.1.  Some of the names have a negative hash, the most negative
    hash, or non-ASCII characters.
    """
    assert partition_for(group_id, 8) == of_8
    assert partition_for(group_id, 50) == of_50
