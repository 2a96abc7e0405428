"""Compares the replicas of a partition on the disks of the brokers, batch by batch: committed data must be the same."""

from collections.abc import Mapping
from pathlib import Path

from tidemill.batches.batch import HEADER_BYTES, read_header
from tidemill.model.topic import TopicId
from tidemill.storage import paths


def batches(directory: Path, topic_id: TopicId, partition: int, end_offset: int) -> dict[int, bytes]:
    """Return the complete batches below `end_offset`, by base offset.  Any bytes after them are not part of the log."""
    found: dict[int, bytes] = {}
    folder = directory / paths.partition_directory(topic_id, partition)
    for file in sorted(folder.glob("*.log")):
        data = file.read_bytes()
        position = 0
        offset = int(file.stem)
        while len(data) - position >= HEADER_BYTES:
            header = read_header(memoryview(data)[position:])
            is_next = header.base_offset == offset and header.size_bytes >= HEADER_BYTES
            if not is_next or offset >= end_offset:
                break
            found[offset] = data[position : position + header.size_bytes]
            position += header.size_bytes
            offset = header.end_offset
    return found


def differences(directories: Mapping[int, Path], topic_id: TopicId, end_offsets: Mapping[int, int]) -> list[str]:
    """Return a message for each partition whose replicas differ in data below the high watermark."""
    problems = []
    for partition, end_offset in end_offsets.items():
        replicas = {number: batches(path, topic_id, partition, end_offset) for number, path in directories.items()}
        (first, one), *others = replicas.items()
        for number, other in others:
            places = sorted(place for place in one.keys() | other.keys() if one.get(place) != other.get(place))
            if places:
                what = f"brokers {first} and {number} differ in {len(places)} batches, the first at {places[0]}"
                problems.append(f"partition {partition}: {what}")
    return problems
