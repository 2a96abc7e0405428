"""Texts for the sentences of steps and refusals: durations, counts, and brokers with what is known of them."""

from collections.abc import Iterable

from tidemill.model.broker_id import BrokerId


def duration(milliseconds: int) -> str:
    """Return a duration in its two largest units, such as "5 min 2 s"."""
    seconds = milliseconds // 1000
    for size, unit, part, part_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {unit}" + (f" {rest} {part_unit}" if rest else "")
    return f"{seconds} s"


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def points(per_mille: int) -> str:
    """Return per mille of a core as percent."""
    return f"{per_mille / 10:.0f} %"


def brokers_text(broker_ids: Iterable[BrokerId]) -> str:
    listed = [str(broker_id) for broker_id in broker_ids]
    return f"broker {listed[0]}" if len(listed) == 1 else f"brokers {', '.join(listed)}"


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"
