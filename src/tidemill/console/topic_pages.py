"""The pages of topics: the list, and one topic with its partitions and settings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from tidemill.console.cluster_reader import Offsets
from tidemill.console.cluster_view import STATES, PartitionRow
from tidemill.console.site import Visit
from tidemill.model.partition import TopicPartition

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """What partitions hold.  A number is None if nothing of it is known."""

    records: int | None  # between the start and the end of the log; compaction may have removed some of them
    rate: float | None  # records per second
    size_bytes: int | None  # of the replicas on this broker


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
    partitions = {row.name: visit.view.partitions(row.name) or [] for row in page.rows}
    with visit.reader() as reader:
        offsets, problems = reader.offsets(partitions)
    rates = visit.rates.observe({it: known.end for it, known in offsets.items()})
    volumes = {name: _volume(name, rows, offsets, rates) for name, rows in partitions.items()}
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
    with visit.reader() as reader:
        offsets, problems = reader.offsets({name: partitions})
    rates = visit.rates.observe({it: known.end for it, known in offsets.items()})
    by_number = {row.number: TopicPartition(name, row.number) for row in partitions}
    return visit.render(
        "topic.html",
        topic=name,
        page=page,
        offsets={number: offsets.get(it) for number, it in by_number.items()},
        rates={number: rates.get(it) for number, it in by_number.items()},
        volume=_volume(name, partitions, offsets, rates),
        settings=visit.view.settings(name),
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
        records=_sum(offsets[it].end - offsets[it].start for it in known if it in offsets),
        rate=_sum(rates[it] for it in known if it in rates),
        size_bytes=_sum(row.local.size_bytes for row in partitions if row.local is not None),
    )


def _sum(numbers: Iterable[Number]) -> Number | None:
    found = list(numbers)
    return sum(found) if found else None
