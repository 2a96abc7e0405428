"""The pages of topics: the list, and one topic with its partitions and settings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from tidemill.console.cluster_reader import PARTITIONS_MAX, Offsets
from tidemill.console.cluster_view import STATES, PartitionRow, TopicRow
from tidemill.console.site import Visit
from tidemill.console.timer_reader import read_waiting
from tidemill.model.partition import TopicPartition
from tidemill.model.topic_kind import KIND, TopicKind

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Sums over a topic's partitions.  A sum is None unless all its terms are known."""

    records: int | None  # the number of records between the starts and the ends of the logs
    rate: float | None  # records per second
    size_bytes: int | None  # the size of the replicas on this broker


def topics(visit: Visit) -> HTMLResponse:
    search = visit.text("q").lower()
    state = visit.choice("state", STATES, "")
    shows_internal = visit.choice("internal", ("1",), "") == "1"
    found = [
        row
        for row in visit.view.topics()
        if search in row.name.lower() and state in ("", row.state) and (shows_internal or not row.is_internal)
    ]
    page = visit.slice(found)
    partitions = {row.name: visit.view.partitions(row.name) or [] for row in _within_limit(page.rows)}
    with visit.reader() as reader:
        offsets, problems = reader.offsets(partitions)
    rates = visit.rates.observe({it: known.end for it, known in offsets.items()})
    volumes = {row.name: _volume(row.name, partitions.get(row.name, ()), offsets, rates) for row in page.rows}
    return visit.render(
        "topics.html",
        page=page,
        volumes=volumes,
        problems=problems,
        state=state,
        states=STATES,
        shows_internal=shows_internal,
    )


def topic(visit: Visit) -> HTMLResponse:
    name = visit.request.path_params["topic"]
    partitions = visit.view.partitions(name)
    if partitions is None:
        raise HTTPException(404, f"There is no topic {name[:300]}.")
    page = visit.slice(partitions)
    settings = visit.view.settings(name)
    waiting = None
    with visit.reader() as reader:
        offsets, problems = reader.offsets({name: partitions})
        if any((it.key, it.value) == (KIND, TopicKind.TIMER) for it in settings):
            waiting, missing = read_waiting(reader.settings, name, visit.wall_ms)
            problems += missing
    rates = visit.rates.observe({it: known.end for it, known in offsets.items()})
    by_number = {row.number: TopicPartition(name, row.number) for row in partitions}
    return visit.render(
        "topic.html",
        topic=name,
        page=page,
        offsets={number: offsets.get(it) for number, it in by_number.items()},
        rates={number: rates.get(it) for number, it in by_number.items()},
        volume=_volume(name, partitions, offsets, rates),
        settings=settings,
        waiting=waiting,
        problems=problems,
    )


def _volume(
    topic: str,
    partitions: Sequence[PartitionRow],
    offsets: Mapping[TopicPartition, Offsets],
    rates: Mapping[TopicPartition, float],
) -> Volume:
    known = [TopicPartition(topic, row.number) for row in partitions]
    return Volume(
        records=_sum(offsets[it].end - offsets[it].start if it in offsets else None for it in known),
        rate=_sum(rates.get(it) for it in known),
        size_bytes=_sum(row.local.size_bytes for row in partitions if row.local is not None),
    )


def _within_limit(topics: Iterable[TopicRow]) -> Iterator[TopicRow]:
    """Yield the first topics, up to PARTITIONS_MAX partitions in total; the volumes of the others are not shown."""
    count = 0
    for row in topics:
        count += row.partition_count
        if count <= PARTITIONS_MAX:
            yield row


def _sum(numbers: Iterable[Number | None]) -> Number | None:
    """Return the sum; None if there are no numbers, or if one of them is unknown."""
    found = list(numbers)
    known = [it for it in found if it is not None]
    return sum(known) if known and len(known) == len(found) else None
