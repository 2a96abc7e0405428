"""The pages of queues (a queue is a share group's use of a topic): the list, one queue, and one share group."""

from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from tidemill.client.failures import ClientError
from tidemill.console import group_reader, queue_reader
from tidemill.console.cluster_reader import ClusterReader
from tidemill.console.group_reader import GroupRow, MemberRow
from tidemill.console.site import Visit


def queues(visit: Visit) -> HTMLResponse:
    search = visit.text("q").lower()
    with visit.reader() as reader:
        rows, problems = group_reader.list_all(reader)
        page = visit.slice([row for row in rows if row.is_share and search in row.group_id.lower()])
        topics, more = queue_reader.topics(reader, page.rows)
        found, still_more = queue_reader.queues(reader, topics, visit.view.partitions)
    return visit.render(
        "queues.html",
        page=page,
        queues=found,
        idle=[row for row in page.rows if row.group_id in topics and not topics[row.group_id].ids],
        problems=(*problems, *more, *still_more),
    )


def queue(visit: Visit) -> HTMLResponse:
    group_id, topic = visit.query.get("group", ""), visit.query.get("topic", "")
    with visit.reader() as reader:
        rows, problems = group_reader.list_all(reader)
        row = next((it for it in rows if it.group_id == group_id and it.is_share), None)
        if row is None:
            if not problems:
                raise HTTPException(404, f"There is no share group {group_id[:300]!r}.")
            return visit.render("queue.html", group_id=group_id, topic=topic, queue=None, problems=problems)
        topics, more = queue_reader.topics(reader, [row])
        if group_id in topics:
            known = topics[group_id].ids
            if topic not in known:
                raise HTTPException(404, f"The share group {group_id[:300]!r} does not read a topic {topic[:300]!r}.")
            topics[group_id].ids = {topic: known[topic]}
        found, still_more = queue_reader.queues(reader, topics, visit.view.partitions)
        members, missing = _members(reader, row)
    readers = [
        (member, numbers)
        for member in members
        if (numbers := sorted(it.partition for it in member.partitions if it.topic == topic))
    ]
    return visit.render(
        "queue.html",
        group_id=group_id,
        topic=topic,
        queue=found[0] if found else None,
        page=visit.slice(found[0].partitions if found else ()),
        row=row,
        readers=readers,
        problems=(*problems, *more, *still_more, *missing),
    )


def share_group(visit: Visit, reader: ClusterReader, row: GroupRow, problems: tuple[str, ...]) -> HTMLResponse:
    """Return the page of a share group, with all its queues and members."""
    topics, more = queue_reader.topics(reader, [row])
    found, still_more = queue_reader.queues(reader, topics, visit.view.partitions)
    members, missing = _members(reader, row)
    return visit.render(
        "share_group.html",
        row=row,
        lag=topics[row.group_id].lag if row.group_id in topics else None,
        queues=found,
        members=members,
        members_with_partitions=[
            (member, [f"{topic} {number}" for topic, number in sorted(member.partitions)]) for member in members
        ],
        problems=(*problems, *more, *still_more, *missing),
    )


def _members(reader: ClusterReader, row: GroupRow) -> tuple[Sequence[MemberRow], tuple[str, ...]]:
    try:
        return queue_reader.members(reader, row), ()
    except ClientError as error:
        return (), (f"The members are missing: {error}",)
