"""What comes behind a batch that was refused is refused, for as long as that batch may come again."""

import pytest

from tidemill.batches.batch import SEQUENCE_MAX
from tidemill.batches.builder import build_batch
from tidemill.broker.connection.pipelines import EXPECTED_MS, PARTITIONS_MAX, Pipelines
from tidemill.model import errors
from tidemill.storage.partition.producer_states import ProducerBatch, ProducerStates

PLACE = ("flights", 0)
REFUSED = errors.NOT_LEADER_OR_FOLLOWER
NOBODY = ProducerStates()


def batch(sequence: int, producer_id: int = 7, epoch: int = 0) -> memoryview:
    numbers = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return memoryview(build_batch([(None, b"v", (), 1)], **numbers))


def refusing(sequence: int = 5) -> Pipelines:
    pipelines = Pipelines()
    pipelines.refuse(PLACE, batch(sequence), REFUSED, 0)
    return pipelines


@pytest.mark.parametrize("first", [5, SEQUENCE_MAX - 1])
def test_what_is_behind_waits_for_the_first(first: int) -> None:
    """
    In the order in which it was sent, also where sequences begin again.
    """
    pipelines = refusing(first)
    numbers = [(first + step) & SEQUENCE_MAX for step in range(4)]
    for number in numbers[1:]:
        pipelines.refuse(PLACE, batch(number), REFUSED, 0)

    before = [pipelines.refusal(PLACE, batch(number), NOBODY, 1) for number in numbers[1:]]
    after = [pipelines.refusal(PLACE, batch(number), NOBODY, 1) for number in numbers]

    assert [REFUSED] * 3 == before
    assert [errors.NONE] * 4 == after
    assert not pipelines


@pytest.mark.parametrize(
    ("sequence", "producer_id", "epoch"), [(6, 8, 0), (6, 7, 1), (4, 7, 0)], ids=["producer", "epoch", "before"]
)
def test_nobody_else_waits(sequence: int, producer_id: int, epoch: int) -> None:
    """
    A new epoch says that the client has given the batch up.
    """
    assert errors.NONE == refusing().refusal(PLACE, batch(sequence, producer_id, epoch), NOBODY, 1)


def test_a_batch_is_not_waited_for_for_ever() -> None:
    """
    The client may have given it up without a word.
    """
    assert (REFUSED, errors.NONE) == (
        refusing().refusal(PLACE, batch(6), NOBODY, EXPECTED_MS - 1),
        refusing().refusal(PLACE, batch(6), NOBODY, EXPECTED_MS),
    )


def test_the_sequence_of_a_producer_that_is_known_tells_by_itself() -> None:
    """
    Another broker has led in between, and taken the batch.
    """
    known = ProducerStates()
    known.append(7, ProducerBatch(0, 5, 5, 0, 1, 1, 0), 0)

    assert errors.NONE == refusing().refusal(PLACE, batch(6), known, 1)


def test_what_is_remembered_has_a_bound() -> None:
    """
    Clients may name what does not exist.
    """
    pipelines = Pipelines()

    for number in range(PARTITIONS_MAX + 1):
        pipelines.refuse(("none", number), batch(5), REFUSED, 0)

    pipelines.refuse(("n" * 1_000_000, 0), batch(5), REFUSED, 0)

    assert PARTITIONS_MAX == len(pipelines._refused)
    assert REFUSED == pipelines.refusal(("none", PARTITIONS_MAX), batch(6), NOBODY, 1)


def test_what_has_no_sequence_is_not_remembered() -> None:
    """
    Nor what is no batch.
    """
    pipelines = Pipelines()

    pipelines.refuse(PLACE, memoryview(build_batch([(None, b"v", (), 1)])), REFUSED, 0)
    pipelines.refuse(PLACE, memoryview(b"short"), REFUSED, 0)

    assert not pipelines
