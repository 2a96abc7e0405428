"""`tidemill cluster restart`: the steps of a rolling restart, for an orchestrator or an operator."""

from shlex import quote
from typing import Annotated, Any, Final

import typer

from tidemill.cli.bootstrap import JsonOption
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.http_option import HttpOption, resolve_http

WAIT: Final = "10m"
Row = dict[str, Any]


def register(cluster: CommandGroup) -> None:
    cluster.command()(restart)


def restart(
    plan: Annotated[bool, typer.Option("--plan", help="Print the steps; nothing is changed.")] = False,
    http: HttpOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Print the steps of a rolling restart: the commands for each broker, the controller last.

    Tidemill does not start processes, so an orchestrator runs these steps: each broker gives up its leaders, is
    checked, restarts, and is in sync again before the next one.  The command fails while a broker is down or not in
    sync.

    \b
    Examples:
      tidemill cluster restart --plan
      tidemill cluster restart --plan --json | jq -r '.steps[].commands[]'
    """
    from tidemill.cli.cluster_http import ClusterHttp, http_errors
    from tidemill.cli.failure import Failed, usage
    from tidemill.cli.output import pipe_may_close, print_json

    if not plan:
        raise usage("restart needs --plan: the command prints the steps, and restarts nothing itself")
    addresses = resolve_http(http)
    with http_errors(addresses):
        cluster = ClusterHttp(addresses)
        report = cluster.get("/v1/rebalance")
        brokers: list[Row] = report["brokers"]
        controller: int | None = cluster.get("/v1/cluster")["controller"]
    if why := refusal(brokers, controller, is_stalled=report["status"] == "stalled"):
        raise Failed(f"no restart now: {why}")
    steps = steps_of(brokers, controller, http)
    with pipe_may_close():
        if as_json:
            print_json({"steps": steps})
            return
        for step in steps:
            print(f"# broker {step['broker_id']}")
            for command in step["commands"]:
                print(command)


def refusal(brokers: list[Row], controller: int | None, *, is_stalled: bool = False) -> str | None:
    """
    Return why no broker should restart now: one that is down already would make two, and without a controller no step
    can be taken, nor the controller be the last one.  If re-placement `is_stalled`, no silent broker becomes gone by
    itself.
    """
    if controller is None:
        return "the broker that was asked knows no controller; try again in a second"
    for row in brokers:
        number = row["broker_id"]
        if not row["is_live"]:
            return f"broker {number} is down; {_way_out(row, is_stalled=is_stalled)}"
        if row["drain"] == "none" and row["is_ready"] and 0 < row["not_in_sync"] == row["untold"]:
            return (
                f"the controller does not know yet whether broker {number} is in sync: it is new, or shards have no "
                "leader; try again in some seconds; if that lasts, `tidemill cluster rebalance` says why"
            )
        if row["drain"] == "none" and (row["not_in_sync"] or not row["is_ready"]):
            return f"broker {number} is not in sync; run `tidemill cluster undrain {number} --wait {WAIT}`"
    return None


def _way_out(row: Row, *, is_stalled: bool) -> str:
    """Return what an operator can do about a broker that is down: it is removed only when it carries nothing."""
    number, remove = row["broker_id"], f"`tidemill cluster remove {row['broker_id']}`"
    if not row["replicas"]:
        return f"bring it back, or run {remove}"
    moving = f"when its replicas have moved ({row['replicas']} left; see `tidemill cluster moves`), run {remove}"
    if row["presence"] == "gone":
        return f"bring it back, or {moving}"
    silent = "when it is silent, " if row["presence"] == "active" else ""
    wait = "" if is_stalled else ", or wait until the cluster does so"
    return f"bring it back, or if it is lost for good, {silent}run `tidemill cluster replace {number}`{wait}; {moving}"


def steps_of(brokers: list[Row], controller: int | None, http: str | None) -> list[Row]:
    """
    Return the commands for each broker, the controller last, because each change of controller costs a pause.  If the
    plan was asked for with `--http`, the commands need the same option: they must not reach another cluster.
    """
    ids = sorted((row["broker_id"] for row in brokers), key=lambda it: (it == controller, it))
    drained = {row["broker_id"] for row in brokers if row["drain"] != "none"}
    options = f"--wait {WAIT}" if http is None else f"--wait {WAIT} --http {quote(http)}"
    return [{"broker_id": it, "commands": _commands(it, options, is_drained=it in drained)} for it in ids]


def _commands(broker_id: int, options: str, *, is_drained: bool) -> list[str]:
    if is_drained:  # it stays as it is
        return [f"tidemill cluster may-stop {broker_id} {options}", f": restart broker {broker_id}"]
    return [
        f"tidemill cluster drain {broker_id} --leaders {options}",
        f"tidemill cluster may-stop {broker_id} {options}",
        f": restart broker {broker_id}",
        f"tidemill cluster undrain {broker_id} {options}",
    ]
