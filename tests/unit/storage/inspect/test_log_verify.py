"""`log verify`: what it must report as damage, and what it must not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tidemill.model.broker_id import BrokerId, DirectoryId
from tidemill.storage import paths
from tidemill.storage.data_directory import Identity, write_identity
from tidemill.storage.inspect.log_dump import dump
from tidemill.storage.inspect.log_verify import verify
from tidemill.storage.store import StoreOptions

KEY = b"k" * 16  # the journal key of `make_hand`

OPTIONS = StoreOptions(journal_first_bytes=1 << 18, journal_file_bytes=1 << 18, journal_bytes_max=1 << 18)


@pytest.fixture
def hand(make_hand: Callable[..., Any]) -> Any:
    """A store with ten batches before a checkpoint, three per segment, and five after it."""
    hand = make_hand(OPTIONS, segment_bytes=600)
    identity = Identity(cluster_id="c", broker_id=BrokerId(1), directory_id=DirectoryId(b"d" * 16), journal_key=KEY)
    write_identity(hand.disk, identity)
    hand.checkpoint()
    hand.append(10)
    hand.write_all()
    hand.commit()
    hand.checkpoint()
    for _ in range(5):
        hand.append()
        hand.write_all()
    hand.write(empty=True)
    return hand


def flip(hand: Any, path: str, position: int) -> None:
    file = hand.disk.open(path)
    file.write(position, [bytes([file.read(position, 1)[0] ^ 1])])


def test_a_whole_directory_has_no_damage(hand: Any) -> None:
    """`verify` checks all batches that the checkpoint covers and all blocks after it, and finds no damage."""
    verified = verify(hand.disk)

    assert [] == verified.damages
    assert (10, 6) == (verified.batches, verified.blocks)


def test_a_flipped_byte_in_a_segment_is_named_with_its_offsets(hand: Any) -> None:
    """A flipped byte is reported with the file, the position and the offsets, which the operator needs for a repair."""
    segment = hand.log.segments[1]
    size = hand.log.segments[0].size // 3
    flip(hand, segment.path, size + 70)

    (damage,) = verify(hand.disk).damages

    first = segment.base_offset + 1
    assert (segment.path, size, size, first, first + 1) == damage[:5]


@pytest.mark.parametrize("position", [3, 10, 14], ids=["offset", "length", "epoch"])
def test_a_flipped_byte_in_a_header_is_damage(hand: Any, position: int) -> None:
    """A flipped byte in the offset, length or epoch is damage, although the batch's CRC does not cover these fields."""
    flip(hand, hand.log.segments[0].path, position)

    assert {hand.log.segments[0].path} == {damage.file for damage in verify(hand.disk).damages}


def test_a_truncated_segment_is_damage(hand: Any) -> None:
    """The reported damage reaches from the first incomplete batch to the end of the segment."""
    segment = hand.log.segments[0]
    hand.disk.open(segment.path).truncate(segment.size - 10)

    (damage,) = verify(hand.disk).damages

    assert (segment.path, segment.size, hand.log.segments[1].base_offset) == (
        damage.file,
        damage.position + damage.size,
        damage.end_offset,
    )


def test_a_missing_segment_is_damage(hand: Any) -> None:
    """If a segment is missing, the damage that is reported covers all of its offsets."""
    hand.disk.remove(hand.log.segments[0].path)

    (damage,) = verify(hand.disk).damages

    assert (hand.log.segments[0].path, 0, hand.log.segments[1].base_offset) == (
        damage.file,
        damage.offset,
        damage.end_offset,
    )


def test_a_flipped_byte_in_a_synced_block_is_damage(hand: Any) -> None:
    """A flipped byte in a synced block is damage; a later block records that it was synced."""
    place = next(row for row in dump(hand.disk) if row["type"] == "row")
    flip(hand, place["file"], place["position"] + 200)

    (damage,) = verify(hand.disk).damages

    assert (place["file"], place["position"]) == (damage.file, damage.position)


def test_a_torn_last_block_is_no_damage(hand: Any) -> None:
    """A torn last block is not damage, because it was never reported as durable."""
    last = [row for row in dump(hand.disk) if row["type"] == "block"][-1]
    flip(hand, last["file"], last["position"] + 20)

    assert [] == verify(hand.disk).damages


def test_a_flipped_byte_in_a_checkpoint_is_damage(hand: Any) -> None:
    """A damaged checkpoint is reported even if the other one is in use."""
    path = paths.checkpoint_file(hand.store.checkpoints.number - 1)
    flip(hand, path, 20)

    assert [path] == [damage.file for damage in verify(hand.disk).damages]


def test_without_any_checkpoint_the_directory_is_damaged(hand: Any) -> None:
    """Without a checkpoint the directory is damaged, because the start of the journal is unknown."""
    for parity in (0, 1):
        flip(hand, paths.checkpoint_file(parity), 20)

    (damage,) = verify(hand.disk).damages

    assert "neither" in damage.problem


def test_bytes_that_are_only_in_the_journal_are_no_damage(hand: Any) -> None:
    """Bytes that are only in the journal are not damage, because the next start writes them to the segments again."""
    segment = hand.log.segments[-1]
    hand.disk.remove(segment.path)

    assert [] == verify(hand.disk).damages


def test_a_trimmed_segment_is_not_missing(hand: Any) -> None:
    """
    A trimmed segment is not missing: its file is removed once the trim is synced, long before the next checkpoint.
    """
    hand.store.trim(hand.shard, 0, 6)
    hand.write_all()
    hand.write(empty=True)
    hand.remove()

    assert [] == verify(hand.disk).damages


def test_a_truncation_after_the_checkpoint_is_no_damage(make_hand: Callable[..., Any]) -> None:
    """After a truncation, the segment's bytes belong to other batches than in the checkpoint; this is not damage."""
    hand = make_hand(replace(OPTIONS))
    write_identity(
        hand.disk,
        Identity(cluster_id="c", broker_id=BrokerId(1), directory_id=DirectoryId(b"d" * 16), journal_key=KEY),
    )
    hand.append(6)
    hand.write_all()
    hand.checkpoint()
    hand.store.truncate(hand.shard, 3)
    hand.append(2, size=333, term=2)
    hand.write_all()

    assert [] == verify(hand.disk).damages


def test_a_missing_journal_file_is_damage(hand: Any) -> None:
    """A missing journal file is damage, whatever it contained."""
    hand.disk.remove("journal/00000001.journal")

    (damage,) = verify(hand.disk).damages

    assert "journal" == damage.file


def test_a_dump_holds_every_row_and_every_batch(hand: Any) -> None:
    """A dump lists the journal from the checkpoint on, and all segments."""
    rows = list(dump(hand.disk))

    assert list(range(10, 15)) == [row["base_offset"] for row in rows if row["type"] == "row"]
    batches = [row for row in rows if row["type"] == "batch"]
    assert list(range(15)) == [row["base_offset"] for row in batches]
    assert all(row["crc_matches"] for row in batches)
