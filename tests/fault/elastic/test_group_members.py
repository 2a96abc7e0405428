"""What a consumer group of the fault tests must not do is noticed."""

import pytest

from tests.fault.elastic.group_members import Commit, Delivery, violations


def test_a_record_may_be_delivered_again_until_its_commit_is_acknowledged() -> None:
    assert [] == violations([Delivery(0, 0), Delivery(0, 1), Commit(0, 1), Delivery(0, 1), Delivery(1, 0)])


@pytest.mark.parametrize(
    ("last", "what"),
    [
        (Delivery(0, 0), "0@0 was delivered again, although 1 was committed"),
        (Delivery(0, 3), "0@3 was delivered, and 0@2 never was"),
        (Delivery(1, 1), "1@1 was delivered, and 1@0 never was"),
    ],
)
def test_a_lost_commit_and_a_skipped_record_are_violations(last: Delivery, what: str) -> None:
    assert [what] == violations([Delivery(0, 0), Delivery(0, 1), Commit(0, 1), last])
