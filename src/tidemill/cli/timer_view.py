"""How `tidemill timers` shows records that wait, and counts of them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from tidemill.batches.records import Record
from tidemill.cli.output import print_fields
from tidemill.cli.queue_records import RECORD_COLUMNS, moment, record_cells
from tidemill.cli.record_json import bytes_as_json
from tidemill.client.timer_choice import Listed
from tidemill.model.delayed_record import MISSED, SCHEDULE, TIMEZONE
from tidemill.model.duration import shown

BAR_MAX: Final = 40  # characters
COLUMNS: Final = ("due", "in", "partition", "arrival", "id", "key")
SCHEDULE_COLUMNS: Final = ("id", "schedule", "time zone", "missed", "next due", "in", "partition")


def time_left(due_ms: int, now_ms: int) -> str:
    """Return how long a record still waits, such as 3h."""
    left_ms = due_ms - now_ms
    return "now" if left_ms <= 0 else shown(left_ms)


def cells(listed: Listed, now_ms: int, *, has_value: bool) -> list[object]:
    """Return the cells for COLUMNS, and for the value."""
    due_ms, partition, arrival = listed.order
    record = _plain(listed)
    (key, value), (timer_id, _) = record_cells(record), record_cells(record._replace(key=listed.record.timer_id))
    row: list[object] = [moment(due_ms), time_left(due_ms, now_ms), partition, arrival, timer_id, key]
    return [*row, value] if has_value else row


def columns(*, has_value: bool) -> tuple[str, ...]:
    return (*COLUMNS, RECORD_COLUMNS[1]) if has_value else COLUMNS


def schedule_cells(listed: Listed, now_ms: int) -> list[object]:
    """Return the cells for SCHEDULE_COLUMNS."""
    due_ms, partition, _ = listed.order
    headers = {it.name: (it.value or b"").decode(errors="replace") for it in listed.record.headers}
    (timer_id, _) = record_cells(_plain(listed)._replace(key=listed.record.timer_id))
    zone, missed = headers.get(TIMEZONE), headers.get(MISSED, "one")
    return [timer_id, headers.get(SCHEDULE), zone, missed, moment(due_ms), time_left(due_ms, now_ms), partition]


def row(topic: str, listed: Listed, *, has_value: bool) -> dict[str, Any]:
    """Return the object that `timers list --json` prints for a record."""
    record = listed.record
    found = {
        "topic": topic,
        "partition": listed.order.partition,
        "arrival": record.arrival,
        "due_ms": record.due_ms,
        "timer_id": bytes_as_json(record.timer_id),
        "timestamp": record.timestamp_ms if record.timestamp_ms >= 0 else None,
        "size_bytes": record.size_bytes,
        "key": bytes_as_json(record.key),
        "headers": [[it.name, bytes_as_json(it.value)] for it in record.headers],
    }
    return found | {"value": bytes_as_json(record.value)} if has_value else found


def print_record(listed: Listed, now_ms: int) -> None:
    record = listed.record
    key, value = record_cells(_plain(listed))
    headers = [f"{it.name}={record_cells(_plain(listed)._replace(key=it.value))[0] or ''}" for it in record.headers]
    print_fields(
        {
            "due": f"{moment(record.due_ms)} ({'' if record.due_ms <= now_ms else 'in '}"
            f"{time_left(record.due_ms, now_ms)})",
            "partition": listed.order.partition,
            "arrival": record.arrival,
            "produced": moment(record.timestamp_ms) if record.timestamp_ms >= 0 else None,
            "size": f"{record.size_bytes} bytes",
            "key": key,
            "headers": ", ".join(headers) or None,
            "value": value,
        }
    )


def labels(durations: Sequence[str]) -> list[str]:
    """Return what the buckets that end so long from now are called."""
    between = [f"{first} to {second}" for first, second in pairwise(durations)]
    return [f"within {durations[0]}", *between, f"after {durations[-1]}"]


def bar(count: int, greatest: int) -> str:
    """Return a bar whose length is the share of the greatest count; a count above zero has at least one character."""
    return "█" * max(round(count * BAR_MAX / greatest), 1) if count else ""


def _plain(listed: Listed) -> Record:
    record = listed.record
    return Record(record.key, record.value, (), record.timestamp_ms, record.arrival)
