"""List, describe, reset and delete groups: consumer groups and share groups.

\b
Examples:
  tidemill groups list
  tidemill groups describe billing
  tidemill groups reset billing --to -10m
  tidemill groups reset billing --to earliest --topic orders --execute
  tidemill groups delete billing
"""

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidemill.cli.bootstrap import BootstrapOption, JsonOption, resolve
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.confirmation import YesOption, confirm
from tidemill.cli.failure import usage
from tidemill.cli.start_position import POSITIONS, parse

if TYPE_CHECKING:
    from tidemill.cli.group_admin import GroupAdmin

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
OFFSET_COLUMNS: Final = ("topic", "partition", "start_offset", "committed", "end_offset", "lag", "owner")
CLAMPED_SHOWN_MAX: Final = 5  # a message lists at most this many partitions
GroupsArgument = Annotated[list[str], typer.Argument(metavar="GROUP…", show_default=False)]


def register(application: typer.Typer) -> None:
    groups = CommandGroup("groups", __doc__)
    for command in (list_groups, describe, reset, delete):
        groups.command(name="list" if command is list_groups else command.__name__)(command)
    application.add_typer(groups)


def _admin(bootstrap: str | None, *groups: str) -> "GroupAdmin":
    if "" in groups:
        raise usage("GROUP is empty; `tidemill groups list` lists the groups")
    address = resolve(bootstrap)  # Report usage errors before importing confluent-kafka and connecting.

    from tidemill.cli.coordinator_requests import CoordinatorRequests
    from tidemill.cli.group_admin import GroupAdmin  # imported here because the import is slow (decision 12)
    from tidemill.cli.share_group_admin import ShareGroupAdmin
    from tidemill.cli.topic_admin import TopicAdmin

    topics, requests = TopicAdmin(address), CoordinatorRequests(address)
    return GroupAdmin(address, topics, requests, ShareGroupAdmin(requests, topics))


def list_groups(bootstrap: BootstrapOption = None, as_json: JsonOption = False) -> None:
    """
    List groups with their states and types.

    Example: tidemill groups list --json
    """
    from tidemill.cli.output import pipe_may_close, print_json, print_table

    rows, problem = _admin(bootstrap).rows()
    with pipe_may_close():
        if as_json:
            for row in rows:
                print_json(row)
        else:
            print_table(("group", "state", "type"), [list(row.values()) for row in rows])
    if problem is not None:
        raise problem


def describe(groups: GroupsArgument, bootstrap: BootstrapOption = None, as_json: JsonOption = False) -> None:
    """
    Show the state, members, offsets and lag of groups.

    The lag is the number of records between the committed offset and the end of the partition.  For a share group, it
    is the number of records that are not finished; those below the start offset are.

    Example: tidemill groups describe billing
    """
    from tidemill.cli.output import pipe_may_close, print_json

    admin = _admin(bootstrap, *groups)
    rows = [admin.description_of(group) for group in dict.fromkeys(groups)]
    with pipe_may_close():
        for row in rows:
            if as_json:
                print_json(row)
            else:
                _print_description(row)


def _print_description(row: dict[str, Any]) -> None:
    from tidemill.cli.output import print_fields, print_table

    coordinator = row["coordinator"]
    print_fields(
        {
            "group": row["group"],
            "state": row["state"],
            "type": row["type"],
            "assignor": row["assignor"],
            "coordinator": f"{coordinator['id']} ({coordinator['host']}:{coordinator['port']})",
            "members": len(row["members"]),
            "total lag": row["total_lag"],
        }
    )
    columns = ["client_id", "host", "partitions", "member_id"]
    if any(member["instance_id"] is not None for member in row["members"]):
        columns.insert(0, "instance_id")
    members = [member | {"partitions": _brief(member["partitions"])} for member in row["members"]]
    if members:
        print_table(columns, [[member[column] for column in columns] for member in members])
    if row["partitions"]:
        clients = Counter(member["client_id"] for member in members)
        owners = {
            member["member_id"]: member["client_id" if clients[member["client_id"]] == 1 else "member_id"]
            for member in members
        }
        columns = [column for column in OFFSET_COLUMNS if column in row["partitions"][0]]
        shown = [it | {"owner": owners.get(it.get("owner"))} for it in row["partitions"]]
        print_table(columns, [[it[column] for column in columns] for it in shown])


def _brief(partitions: list[dict[str, Any]]) -> str:
    """Return partitions as `orders:0,1 payments:0`, or a dash if there are none."""
    numbers: dict[str, list[str]] = {}
    for it in partitions:
        numbers.setdefault(it["topic"], []).append(str(it["partition"]))
    return " ".join(f"{topic}:{','.join(listed)}" for topic, listed in numbers.items()) or "-"


def reset(
    group: GroupArgument,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar=POSITIONS,
            show_default=False,
            help="The new position.  -10m is ten minutes ago; units are s, m, h and d.",
        ),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="T", help="All partitions of this topic.  Repeatable.  Default: those with an offset."),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option(metavar="P", min=0, help="Only this partition of the topic.  Repeatable.")
    ] = None,
    share: Annotated[
        bool, typer.Option("--share", help="If the group does not exist, create it as a share group.")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Change the offsets; without it, only show them.")] = False,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Reset the offsets of a group; without --execute, only show the changes.

    The group must have no active members, because they would overwrite its committed offsets.  For a share group, the
    start offsets are reset, and all records from there on are delivered again.  An offset outside of a partition's log
    is replaced by the nearest offset inside.  A time after the last record is the end offset.

    \b
    Examples:
      tidemill groups reset billing --to earliest
      tidemill groups reset billing --to time:2026-01-31T08:00:00Z --topic orders
      tidemill groups reset billing --to offset:42 --topic orders --partition 0 --execute
    """
    from tidemill.cli.output import counted, pipe_may_close, print_json, print_table

    position = parse(to, option="--to", now_ms=round(time.time() * 1000))
    admin = _admin(bootstrap, group)

    from tidemill.cli.group_reset import plan

    type_name = admin.type_without_members(group, "its offsets cannot be reset")
    exists = type_name is not None
    is_share = type_name == "Share" if exists else share
    current = admin.offsets(group, is_share=is_share) if exists else {}
    rows = plan(admin.topics, group, current, position, topic or [], partition or [])
    if execute:
        new = {(row["topic"], row["partition"]): row["new"] for row in rows}
        admin.set_offsets(group, new, is_share=is_share)
    if as_json:
        print_json({"group": group, "exists": exists, "executed": execute, "partitions": rows})
        return
    columns = ("topic", "partition", "current", "new", "change")
    with pipe_may_close():
        print_table(columns, [[*(row[column] for column in columns[:-1]), _signed(row["change"])] for row in rows])
    clamped = [
        f"{it['topic']}-{it['partition']} ({it['log_start']} to {it['end_offset']})" for it in rows if it["clamped"]
    ]
    if clamped:
        more = f" and {len(clamped) - CLAMPED_SHOWN_MAX} more" if len(clamped) > CLAMPED_SHOWN_MAX else ""
        _note(
            f"offset {position.offset} is outside of the log, and the nearest offset is used: "
            f"{', '.join(clamped[:CLAMPED_SHOWN_MAX])}{more}"
        )
    partitions = counted(len(rows), "partition")
    if execute:
        _note(f"reset {partitions} of group {group!r}")
    else:
        kind = "share group" if is_share else "group"
        creation = "" if exists else f"; {kind} {group!r} does not exist and would be created"
        _note(f"nothing was changed; add --execute to reset {partitions}{creation}")


def _signed(change: int | None) -> str:
    return "-" if change is None else f"{change:+}" if change else "0"


def _note(text: str) -> None:
    """Print to stderr, because stdout is reserved for the table."""
    print(text, file=sys.stderr)


def delete(
    groups: GroupsArgument, yes: YesOption = False, bootstrap: BootstrapOption = None, as_json: JsonOption = False
) -> None:
    """
    Delete groups with their offsets.  On a terminal, ask first.

    A group with active members cannot be deleted.

    Example: tidemill groups delete billing --yes
    """
    from tidemill.cli.output import print_json

    admin = _admin(bootstrap, *groups)

    from tidemill.cli.refusal import refusal

    names = list(dict.fromkeys(groups))
    for name in names:
        if admin.type_without_members(name, "it cannot be deleted") is None:
            raise refusal("GROUP_ID_NOT_FOUND", f"group {name!r}", "it does not exist")
    confirm(f"Delete {', '.join(names)} with all offsets?", is_sure=yes)
    for name in names:
        admin.delete(name)
        if as_json:
            print_json({"group": name, "deleted": True})
        else:
            print(f"deleted {name}")
