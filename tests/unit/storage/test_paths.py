"""Names of directories say which log they have."""

import pytest

from tidemill.model.timer_logs import arrivals_of, kept_of
from tidemill.model.topic import TopicId
from tidemill.storage.paths import partition_directory, partition_number


@pytest.mark.parametrize("number", [0, 17, arrivals_of(0), arrivals_of(17), kept_of(0), kept_of(17)])
def test_the_name_of_a_directory_has_the_number_of_its_log(number: int) -> None:
    """
    `log dump` reads the numbers of the logs of a timer partition from the names of their directories.
    """
    _, _, name = partition_directory(TopicId(bytes(16)), number).rpartition("/")

    assert number == partition_number(name)
