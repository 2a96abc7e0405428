"""The pages of groups: the list with lag, and one consumer group with its members and offsets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from tidemill.client.failures import ClientError
from tidemill.console import group_reader, queue_pages, queue_reader
from tidemill.console.cluster_reader import ClusterReader, Offsets
from tidemill.console.group_reader import GroupDetail, MemberRow
from tidemill.console.site import Visit
from tidemill.model.partition import TopicPartition

Committed = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A group's progress in one partition."""

    partition: TopicPartition
    committed: int | None
    end: int | None
    member: MemberRow | None

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else max(self.end - self.committed, 0)


def groups(visit: Visit) -> HTMLResponse:
    search = visit.text("q").lower()
    with visit.reader() as reader:
        rows, problems = group_reader.list_all(reader)
        page = visit.slice([row for row in rows if search in row.group_id.lower()])
        shared, missing = queue_reader.topics(reader, [row for row in page.rows if row.is_share])
        committed, more = group_reader.committed(reader, [row for row in page.rows if not row.is_share])
        ends, still_more = _ends(visit, reader, (it for offsets in committed.values() for it in offsets))
    topics: dict[str, list[str]] = {it.group_id: [] for it in page.rows}
    topics |= {group_id: sorted({topic for topic, _ in offsets}) for group_id, offsets in committed.items()}
    topics |= {group_id: [*known.ids] for group_id, known in shared.items()}
    lags = {it.group_id: _lag(committed.get(it.group_id, {}), ends) for it in page.rows}
    lags |= {group_id: known.lag for group_id, known in shared.items()}
    return visit.render(
        "groups.html", page=page, topics=topics, lags=lags, problems=(*problems, *missing, *more, *still_more)
    )


def group(visit: Visit) -> HTMLResponse:
    group_id = visit.query.get("id", "")
    with visit.reader() as reader:
        rows, problems = group_reader.list_all(reader)
        row = next((it for it in rows if it.group_id == group_id), None)
        if row is None and not problems:
            raise HTTPException(404, f"There is no group {group_id[:300]!r}.")
        if row is None:
            return visit.render("group.html", group_id=group_id, detail=None, page=None, lag=None, problems=problems)
        if row.is_share:
            return queue_pages.share_group(visit, reader, row, problems)
        try:
            detail = group_reader.describe(reader, row)
        except ClientError as error:
            problems = (*problems, f"The members are missing: {error}")
            detail = GroupDetail(row=row, assignor="", members=())
        by_group, more = group_reader.committed(reader, [row])
        committed = by_group.get(group_id, {})
        wanted = sorted({*committed, *detail.members_by_partition})
        ends, still_more = _ends(visit, reader, wanted)
    progress = [
        Progress(
            partition=it,
            committed=committed.get(it),
            end=ends[it].end if it in ends else None,
            member=detail.members_by_partition.get(it),
        )
        for it in wanted
    ]
    return visit.render(
        "group.html",
        group_id=group_id,
        detail=detail,
        page=visit.slice(progress),
        lag=_lag(committed, ends),
        problems=(*problems, *more, *still_more),
    )


def _ends(
    visit: Visit, reader: ClusterReader, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, Offsets], tuple[str, ...]]:
    """Return the offsets of the existing partitions in `partitions`, and a message about each problem."""
    wanted: dict[str, set[int]] = {}
    for topic, number in partitions:
        wanted.setdefault(topic, set()).add(number)
    rows = {
        topic: [row for row in visit.view.partitions(topic) or () if row.number in numbers]
        for topic, numbers in wanted.items()
    }
    return reader.offsets(rows)


def _lag(committed: Committed, ends: Mapping[TopicPartition, Offsets]) -> int | None:
    """Return a group's lag in records: the sum over the partitions whose lag is known, or None if none is known."""
    known = [max(ends[it].end - offset, 0) for it, offset in committed.items() if it in ends]
    return sum(known) if known else None
