"""Plans `tidemill groups reset`: a new offset for each selected partition of a group."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tidemill.cli.failure import Failed, usage
from tidemill.cli.located_offsets import locate
from tidemill.cli.refusal import refusal
from tidemill.cli.start_position import StartPosition
from tidemill.cli.topic_admin import Partition, TopicAdmin

Row = dict[str, Any]


def plan(
    admin: TopicAdmin,
    group: str,
    current: Mapping[Partition, int | None],
    position: StartPosition,
    topics: Sequence[str],
    partitions: Sequence[int],
) -> list[Row]:
    """
    Return one row per selected partition, with its current and its new offset.

    Without `topics`, the partitions in `current` are selected; otherwise, all partitions of these topics.
    `partitions` replaces this selection within one topic.  Raise `Failed` if nothing is selected, or if a selected
    partition does not exist or has no leader.
    """
    names = list(dict.fromkeys(topics)) or sorted({topic for topic, _ in current})
    if not names:
        raise usage(f"group {group!r} has no offsets; select partitions with --topic NAME")
    if partitions and len(names) > 1:
        raise usage(f"--partition {partitions[0]}: the group reads {', '.join(names)}; select one with --topic NAME")
    rows = []
    for topic in names:
        numbers = _selected(admin, topic, partitions, None if topics else current)
        for number, found in locate(admin, topic, numbers, position).items():
            before = current.get((topic, number))
            rows.append(
                {
                    "topic": topic,
                    "partition": number,
                    "current": before,
                    "new": found.offset,
                    "change": None if before is None else found.offset - before,
                    "log_start": found.log_start,
                    "end_offset": found.end_offset,
                    "clamped": found.is_clamped,
                }
            )
    if not rows:
        raise Failed(f"the partitions for which group {group!r} has offsets no longer exist")
    return rows


def _selected(
    admin: TopicAdmin, topic: str, partitions: Sequence[int], among: Collection[Partition] | None
) -> list[int]:
    """
    Return the numbers of the topic's selected partitions, which must exist and have a leader.

    `partitions` are the selected numbers; if it is empty, the partitions in `among` are selected, or all if that is
    None.
    """
    leaders = admin.leaders_of(topic)
    for number in partitions:
        if number not in leaders:
            raise refusal("UNKNOWN_PARTITION", f"--partition {number}", f"topic {topic!r} has no such partition")
    numbers = sorted(set(partitions) or {number for number in leaders if among is None or (topic, number) in among})
    for number in numbers:
        if leaders[number] is None:
            raise Failed(
                f"{topic}-{number} has no leader, so its offsets are unknown; try again later, or select other "
                "partitions with --topic and --partition",
                name="LEADER_NOT_AVAILABLE",
            )
    return numbers
