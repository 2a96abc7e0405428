"""The partitions that members of a group are assigned."""

import pytest

from tidemill.coordinator.group.assignment import assigned
from tidemill.model.partition import TopicPartition

ASSIGNMENT = bytes.fromhex("0001 00000002 0001 62 00000001 00000005 0001 61 00000002 00000003 00000001 ffffffff")


def test_an_assignment_lists_partitions() -> None:
    """
    An assignment in the format of Kafka's consumers is read, but its user data is ignored.
    """
    expected = [TopicPartition("a", 1), TopicPartition("a", 3), TopicPartition("b", 5)]

    assert expected == assigned(ASSIGNMENT)


@pytest.mark.parametrize("assignment", [b"", b"\0", ASSIGNMENT[:20], b"\0\0\x7f\xff\xff\xff\0\1a", b"connect"])
def test_an_assignment_that_cannot_be_read_has_no_partitions(assignment: bytes) -> None:
    """
    An assignment in another format, such as that of a Kafka Connect worker, is read as one without partitions.
    """
    assert [] == assigned(assignment)
