"""The page of a partition's records: by default the newest ones; older ones are shown page by page."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from tidemill.client.failures import ClientError
from tidemill.console.cluster_reader import Offsets
from tidemill.console.record_reader import AUTO, FORMATS, JSON, RecordPage, read_page
from tidemill.console.site import Visit
from tidemill.model.partition import TopicPartition

LIMITS: Final = (10, 50, 200)  # records on a page


def records(visit: Visit) -> HTMLResponse:
    topic, number = visit.request.path_params["topic"], visit.request.path_params["partition"]
    row = next((it for it in visit.view.partitions(topic) or () if it.number == number), None)
    if row is None:
        raise HTTPException(404, f"There is no partition {number} of a topic {topic[:300]}.")
    partition = TopicPartition(topic, number)
    format_ = visit.choice("format", FORMATS, AUTO)
    limit = visit.number("limit", LIMITS[1])
    limit = limit if limit in (1, *LIMITS) else LIMITS[1]
    page: RecordPage | None = None
    start = 0
    with visit.reader() as reader:
        offsets, problems = reader.offsets({topic: [row]})
        known = offsets.get(partition)
        if row.leader is None:
            problems = ("This partition has no leader at the moment, so its records cannot be read.",)
        elif known is not None:
            start = _start(visit, known, limit)
            try:
                # A page with a single record has room for indented JSON.
                shown_as = JSON if limit == 1 and format_ == AUTO else format_
                page = read_page(reader.settings, partition, start, min(start + limit, known.end), shown_as)
            except (ClientError, ValueError) as error:
                problems = (*problems, f"The records cannot be read: {error}")
    try:
        return visit.render(
            "records.html",
            topic=topic,
            row=row,
            offsets=known,
            page=page,
            start=start,
            limit=limit,
            limits=LIMITS,
            format=format_,
            formats=FORMATS,
            problems=problems,
        )
    finally:
        if page is not None:
            page.rows.clear()  # a template's macros are a cycle, which would keep the page until it is collected


def _start(visit: Visit, offsets: Offsets, limit: int) -> int:
    """Return the page's first offset: the parameter `offset`, clamped to the log; by default the first offset of the
    last page.
    """
    last = max(offsets.end - limit, offsets.start)
    return min(max(visit.number("offset", last), offsets.start), max(offsets.end - 1, offsets.start))
