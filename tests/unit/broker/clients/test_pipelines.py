"""Once a batch has been refused, the batches that follow it are refused until it is sent again."""

import pytest

from tidemill.batches.batch import SEQUENCE_MAX
from tidemill.batches.builder import build_batch
from tidemill.broker.clients.pipelines import EXPECTED_MS, PARTITIONS_MAX, Pipelines
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
def test_batches_behind_a_refused_one_are_refused(first: int) -> None:
    """
    The batches after a refused one are refused until it is sent again, and are then accepted in the order of their
    sequence numbers, even where these wrap to zero.
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
def test_other_producers_and_epochs_are_not_refused(sequence: int, producer_id: int, epoch: int) -> None:
    """
    A new epoch of the same producer is not refused: it shows that the client has given up on the refused batch.
    """
    assert errors.NONE == refusing().refusal(PLACE, batch(sequence, producer_id, epoch), NOBODY, 1)


def test_a_refused_batch_is_expected_for_a_limited_time() -> None:
    """
    Later batches are refused only for a limited time if the refused batch is not sent again, because the client may
    have given up on it without starting a new epoch.
    """
    assert (REFUSED, errors.NONE) == (
        refusing().refusal(PLACE, batch(6), NOBODY, EXPECTED_MS - 1),
        refusing().refusal(PLACE, batch(6), NOBODY, EXPECTED_MS),
    )


def test_a_known_producer_is_checked_by_its_sequences_alone() -> None:
    """
    If the log contains batches of a producer, its next batch is accepted or refused by its sequence alone.  An earlier
    refusal no longer counts, because another leader may have accepted the refused batch in the meantime.
    """
    known = ProducerStates()
    known.append(7, ProducerBatch(0, 5, 5, 0, 1, 1, 0), 0)

    assert errors.NONE == refusing().refusal(PLACE, batch(6), known, 1)


def test_remembered_partitions_are_bounded() -> None:
    """
    The number of remembered partitions is limited, because clients may name partitions that do not exist.
    """
    pipelines = Pipelines()

    for number in range(PARTITIONS_MAX + 1):
        pipelines.refuse(("none", number), batch(5), REFUSED, 0)

    pipelines.refuse(("n" * 1_000_000, 0), batch(5), REFUSED, 0)

    assert PARTITIONS_MAX == len(pipelines._refused)
    assert REFUSED == pipelines.refusal(("none", PARTITIONS_MAX), batch(6), NOBODY, 1)


def test_a_batch_without_a_sequence_is_not_remembered() -> None:
    """
    Neither a batch without a sequence number nor bytes that are not a batch are remembered as refused.
    """
    pipelines = Pipelines()

    pipelines.refuse(PLACE, memoryview(build_batch([(None, b"v", (), 1)])), REFUSED, 0)
    pipelines.refuse(PLACE, memoryview(b"short"), REFUSED, 0)

    assert not pipelines
