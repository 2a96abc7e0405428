"""Builds dead letters for tests."""

from tidemill.cli.letter import Letter
from tidemill.model.letter_origin import MESSAGES, Cause, origin_of


def dead_letter(
    offset: int = 0,
    *,
    partition: int = 0,
    topic: str | None = "orders",
    origin_partition: int | None = 2,
    group: str = "billing",
    cause: Cause | None = Cause.REJECTED,
    omitted: str | None = None,
    origin_ms: int | None = None,
    timestamp_ms: int | None = 1_700_000_000_000,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> Letter:
    told = {
        "__dlq.errors.topic": topic,
        "__dlq.errors.partition": origin_partition,
        "__dlq.errors.offset": 100 + offset,
        "__dlq.errors.group": group,
        "__dlq.errors.delivery.count": 3,
        "__dlq.errors.message": None if cause is None else MESSAGES[cause],
        "__dlq.errors.timestamp": origin_ms,
        "__dlq.errors.omitted": omitted,
    }
    own = [(name, str(value).encode()) for name, value in told.items() if value is not None]
    return Letter(
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
        key=key,
        value=value,
        headers=(*own, *headers),
        origin=origin_of(own),
    )
