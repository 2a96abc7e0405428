"""The `tidemill cluster` commands about shards: where their replicas are, and where they move."""

from typing import Annotated, Final

import typer

from tidemill.cli.bootstrap import JsonOption
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.http_option import HttpOption, resolve_http
from tidemill.cli.wait_option import WaitOption

REFRESH_S: Final = 1.0
ShardArgument = Annotated[int, typer.Argument(metavar="SHARD", min=1, help="The shard's number.")]


def register(cluster: CommandGroup) -> None:
    for command in (shards, moves, move, transfer, rebalance):
        cluster.command()(command)


def shards(
    topic: Annotated[str | None, typer.Option("--topic", help="Only the shards of this topic.")] = None,
    http: HttpOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Show the shards of the cluster, with their leaders, their members and how far these lag behind.

    \b
    Examples:
      tidemill cluster shards
      tidemill cluster shards --topic orders --json
    """
    from tidemill.cli.cluster_http import http_errors
    from tidemill.cli.cluster_view import read_view
    from tidemill.cli.output import pipe_may_close, print_json, print_table
    from tidemill.cli.status_tables import SHARD_COLUMNS, shard_cells

    addresses = resolve_http(http)
    with http_errors(addresses):
        found = [row for row in read_view(addresses).shards if topic is None or row["topic"] == topic]
    with pipe_may_close():
        if as_json:
            print_json({"shards": found})
        else:
            print_table(SHARD_COLUMNS, shard_cells(found))


def moves(
    once: Annotated[bool, typer.Option("--once", help="Show the moves once, even on a terminal.")] = False,
    http: HttpOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Show which replicas are on their way to other brokers, why, and how much of them is copied.

    On a terminal the table is updated every second until Ctrl-C.

    \b
    Examples:
      tidemill cluster moves
      tidemill cluster moves --once
      tidemill cluster moves --json | jq '.count'
    """
    import sys

    from tidemill.cli.cluster_http import ClusterHttp, http_errors
    from tidemill.cli.cluster_tables import MOVE_COLUMNS, move_cells
    from tidemill.cli.cluster_waits import untold_text
    from tidemill.cli.failure import ExitCode
    from tidemill.cli.output import counted, pipe_may_close, print_json, print_table

    addresses = resolve_http(http)
    with http_errors(addresses):
        cluster = ClusterHttp(addresses)
        if sys.stdout.isatty() and not (once or as_json):
            from tidemill.cli.live_moves import show_live

            try:
                show_live(cluster, REFRESH_S)
            except KeyboardInterrupt:
                raise typer.Exit(ExitCode.DONE) from None
        found = cluster.get("/v1/moves")
    with pipe_may_close():
        if as_json:
            print_json(found)
        else:
            print_table(MOVE_COLUMNS, move_cells(found["moves"]))
            if found["count"] > len(found["moves"]):
                print(f"{counted(found['count'] - len(found['moves']), 'shard')} more")
            if why := untold_text(found):
                print(f"The controller is new, or shards have no leader: {why}.")


def move(
    shard: ShardArgument,
    to: Annotated[
        str | None, typer.Option("--to", metavar="BROKER[,…]", help="All replicas, the preferred leader first.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Go back to the brokers that it was on before.")] = False,
    wait: WaitOption = None,
    http: HttpOption = None,
) -> None:
    """
    Place the replicas of a shard on other brokers, or cancel its move.

    The shard's leader copies the data to the new brokers, makes them voters one at a time, and then removes the others.
    A move that is cancelled goes back; a broker that is gone meanwhile is replaced by one that the move went to.

    \b
    Examples:
      tidemill cluster move 41 --to 1,2,4
      tidemill cluster move 41 --to 1,2,4 --wait 1h
      tidemill cluster move 41 --cancel
    """
    from tidemill.cli.cluster_http import ClusterHttp, http_errors
    from tidemill.cli.cluster_waits import Awaited, move_left
    from tidemill.cli.cluster_waits import wait as wait_until
    from tidemill.cli.failure import usage

    if (to is None) is not cancel:
        raise usage(f"move {shard}: use either --to BROKER,… or --cancel")
    addresses = resolve_http(http)
    cluster = ClusterHttp(addresses)
    with http_errors(addresses):
        if to is None:
            cluster.delete(f"/v1/moves/{shard}")
            print(f"The move of shard {shard} is cancelled; it goes back, except to brokers that are gone.")
        else:
            cluster.post(f"/v1/shards/{shard}/move", {"brokers": _numbers(to)})
            print(f"Shard {shard} moves to {to}.")
        awaited = Awaited(
            doing=f"moving shard {shard}",
            undone=f"shard {shard} has not arrived",
            goes_on="The move goes on without this command",
            again=f"cluster move {shard} {'--cancel' if to is None else f'--to {to}'}",
        )
        wait_until(wait, lambda: move_left(cluster, shard), awaited, http=http)


def transfer(
    shard: ShardArgument,
    to: Annotated[int, typer.Option("--to", metavar="BROKER", min=0, help="The broker that is to lead it.")],
    http: HttpOption = None,
) -> None:
    """
    Let another replica of a shard lead it.  Its preferred leader stays the same.

    The transfer is tried again for 5 s.  If the broker does not lead by then, the command fails and says why.

    \b
    Examples:
      tidemill cluster transfer 41 --to 2
    """
    from tidemill.cli.cluster_http import ClusterHttp, http_errors

    addresses = resolve_http(http)
    with http_errors(addresses):
        ClusterHttp(addresses).post(f"/v1/shards/{shard}/transfer", {"broker_id": to})
    print(f"Broker {to} takes over shard {shard}.")


def rebalance(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Plan now, also if tidemill.rebalance.enable is false; change nothing.")
    ] = False,
    http: HttpOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Show what the cluster plans for its replicas and what it cannot do, each with its reason.

    The controller plans once a second and carries it out, unless `tidemill.rebalance.enable` is false.

    \b
    Examples:
      tidemill cluster rebalance
      tidemill cluster rebalance --dry-run
      tidemill cluster rebalance --json | jq '.refusals'
    """
    from tidemill.cli.cluster_http import ClusterHttp, http_errors
    from tidemill.cli.cluster_tables import REFUSAL_COLUMNS, STEP_COLUMNS, step_cells
    from tidemill.cli.output import pipe_may_close, print_json, print_table

    addresses = resolve_http(http)
    with http_errors(addresses):
        found = ClusterHttp(addresses).get("/v1/rebalance", dry_run=str(dry_run).lower())
    with pipe_may_close():
        if as_json:
            print_json(found)
            return
        print(f"Re-placement is {found['status']}{': ' + found['why'] if found['why'] else ''}.")
        if steps := found["steps"] if dry_run else found["recent"]:
            print_table(STEP_COLUMNS, step_cells(steps), title="Planned now" if dry_run else "Latest steps")
        if found["refusals"]:
            rows = [(it["what"], it["sentence"]) for it in found["refusals"]]
            print_table(REFUSAL_COLUMNS, rows, title="What cannot be done now")


def _numbers(text: str) -> list[int]:
    from tidemill.cli.failure import usage

    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) <= 10 for part in parts):
        raise usage(f"--to {text!r}: use the ids of brokers, divided by commas, such as 1,2,4")
    return [int(part) for part in parts]
