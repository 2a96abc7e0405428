"""A dead letter as commands show and select it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.batches.records import Header, Record
from tidemill.model.letter_origin import Origin, origin_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A record of a dead-letter topic, and what its headers say about the dead record."""

    partition: int
    offset: int
    timestamp_ms: int | None  # when the letter was written; None: unknown
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]  # all headers, in order
    origin: Origin

    @property
    def has_content(self) -> bool:
        """
        Whether the letter has the content of the dead record.

        With errors.deadletterqueue.copy.record.enable=false, the content is missing and no header says so.
        """
        is_empty = self.key is None and self.value is None
        return self.origin.omitted is None and not (is_empty and self.origin.timestamp_ms is None)

    def age_ms(self, now_ms: int) -> int | None:
        """Return the time since the letter was written; 0 if this clock is behind the broker's."""
        return None if self.timestamp_ms is None else max(0, now_ms - self.timestamp_ms)


def letter_of(record: Record, partition: int) -> Letter:
    return Letter(
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
        key=record.key,
        value=record.value,
        headers=record.headers,
        origin=origin_of(record.headers),
    )
