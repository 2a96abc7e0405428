"""The table of internal topics."""

import pytest

from tidemill.model.config_keys import BROKER_KEYS
from tidemill.model.internal_topics import INTERNAL_TOPICS, is_internal


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("__consumer_offsets", True),
        ("__transaction_state", True),
        ("__tidemill_metadata", True),
        ("__tidemill_anything", True),
        ("__mine", False),
        ("flights", False),
    ],
)
def test_names_of_the_table_and_with_the_reserved_prefix_are_internal(name: str, expected: bool) -> None:
    """
    Names in the table, and names with the reserved prefix, are internal: clients neither create nor write such topics.
    """
    assert expected == is_internal(name)


def test_every_key_of_the_table_is_a_broker_key() -> None:
    """
    Every key in the table is a broker key, which the controller reads when it creates the topic.
    """
    named = [topic.keys for topic in INTERNAL_TOPICS if topic.keys is not None]
    keys = [key for it in named for key in (it.partition_count, it.replication_factor, it.segment_bytes)]

    assert keys
    assert [] == [key for key in keys if key not in BROKER_KEYS]
