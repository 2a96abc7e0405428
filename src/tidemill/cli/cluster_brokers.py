"""The `tidemill cluster` commands about brokers: their states, and how they leave and come back."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidemill.cli.bootstrap import JsonOption
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.confirmation import YesOption, confirm
from tidemill.cli.http_option import HttpOption, resolve_http
from tidemill.cli.wait_option import WaitOption

if TYPE_CHECKING:
    from tidemill.cli.cluster_waits import Awaited

BrokerArgument = Annotated[int, typer.Argument(metavar="BROKER", min=0, help="The broker's id.")]
SHARDS_NAMED_MAX: Final = 10
ALREADY: Final = "already"  # the kind of a finding that says that nothing was left to be changed
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show whether it can be done.")]


def register(cluster: CommandGroup) -> None:
    for command in (brokers, drain, undrain, replace, remove):
        cluster.command()(command)
    cluster.command("may-stop")(may_stop)


def brokers(http: HttpOption = None, as_json: JsonOption = False) -> None:
    """
    Show the state of each broker, as the controller knows it: since when it is silent, whether it is drained, how full
    its disk is, how busy it is, and how many replicas it has that are not in sync.

    \b
    Examples:
      tidemill cluster brokers
      tidemill cluster brokers --json | jq '.brokers[] | select(.presence != "active")'
    """
    from tidemill.cli.cluster_http import ClusterHttp, http_errors
    from tidemill.cli.cluster_tables import BROKER_COLUMNS, broker_cells, untold_note
    from tidemill.cli.output import pipe_may_close, print_json, print_table

    addresses = resolve_http(http)
    with http_errors(addresses):
        report = ClusterHttp(addresses).get("/v1/rebalance")
    with pipe_may_close():
        if as_json:
            print_json({"brokers": report["brokers"], "notes": report["notes"]})
            return
        print_table(BROKER_COLUMNS, broker_cells(report["brokers"]))
        if why := untold_note(report["brokers"]):
            print(why)
        for note in report["notes"][-5:]:
            print(note["sentence"])


def drain(
    broker: BrokerArgument,
    leaders: Annotated[
        bool, typer.Option("--leaders", help="Only let others lead: for maintenance, or before a restart.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Drain it although some shards have no place elsewhere; they stay.")
    ] = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
    http: HttpOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Move everything away from a broker, or with --leaders only what it leads.

    The cluster is checked first: if a shard has no place elsewhere, the command names it and changes nothing.  The
    cluster goes on without this command; --wait shows how far it is.  `undrain` ends a drain at any time.

    \b
    Examples:
      tidemill cluster drain 3 --dry-run
      tidemill cluster drain 3 --wait 2h
      tidemill cluster drain 3 --leaders --wait 1m
    """
    from tidemill.cli.cluster_waits import Awaited, leaders_left, replicas_left

    body = {"of": "leaders" if leaders else "all", "force": force, "dry_run": dry_run}
    done = f"Broker {broker} {'can be' if dry_run else 'is being'} drained of {'its leaders' if leaders else 'all'}."
    _change(http, f"/v1/brokers/{broker}/drain", body, done, as_json=as_json)
    if not dry_run:
        awaited = Awaited(
            doing=f"draining broker {broker}",
            undone=f"broker {broker} {'still leads' if leaders else 'is not empty'}",
            goes_on="The drain goes on without this command",
            again=f"cluster drain {broker}{' --leaders' if leaders else ''}",
        )
        _wait(http, wait, leaders_left if leaders else replicas_left, broker, awaited)
        if leaders and wait is not None:
            _print_led_alone(http, broker)


def undrain(
    broker: BrokerArgument, wait: WaitOption = None, http: HttpOption = None, as_json: JsonOption = False
) -> None:
    """
    End the drain of a broker: it leads again what it is the preferred leader of, and gets replicas again.

    With --wait the command ends when the broker is ready and all its replicas are in sync.

    \b
    Examples:
      tidemill cluster undrain 3
      tidemill cluster undrain 3 --wait 10m
    """
    from tidemill.cli.cluster_waits import Awaited, sync_left

    _change(http, f"/v1/brokers/{broker}/undrain", {}, f"Broker {broker} is no longer drained.", as_json=as_json)
    awaited = Awaited(
        doing=f"waiting for broker {broker}",
        undone=f"broker {broker} is not back",
        goes_on="Its drain has ended, and its replicas catch up without this command",
        again=f"cluster undrain {broker}",
    )
    _wait(http, wait, sync_left, broker, awaited)


def may_stop(
    broker: BrokerArgument, wait: WaitOption = None, http: HttpOption = None, as_json: JsonOption = False
) -> None:
    """
    Tell whether a broker may stop now: every shard keeps an in-sync majority without it.

    If not, the command names the shards and fails.  With --wait it waits until the broker may stop.

    \b
    Examples:
      tidemill cluster may-stop 3
      tidemill cluster may-stop 3 --wait 10m
    """
    from tidemill.cli.cluster_http import ClusterHttp, http_errors
    from tidemill.cli.cluster_waits import Awaited, majority_left
    from tidemill.cli.failure import Failed
    from tidemill.cli.output import print_json

    awaited = Awaited(
        doing=f"broker {broker} may not stop yet",
        undone=f"broker {broker} must not stop",
        goes_on="The other replicas catch up without this command",
        again=f"cluster may-stop {broker}",
    )
    _wait(http, wait, majority_left, broker, awaited)
    addresses = resolve_http(http)
    with http_errors(addresses):
        answer = ClusterHttp(addresses).get(f"/v1/brokers/{broker}/may-stop")
    if as_json:
        print_json(answer)
    elif answer["may_stop"]:
        print(f"Broker {broker} may stop: each shard keeps an in-sync majority.")
    else:
        _print_findings(answer)
    if not answer["may_stop"]:
        raise Failed(f"broker {broker} must not stop now; bring the others back first, or use --wait")


def replace(
    broker: Annotated[
        list[int] | None,
        typer.Argument(metavar="[BROKER]…", min=0, help="Default: all brokers that are silent."),
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    http: HttpOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Declare silent brokers gone for good, so that their replicas are placed on others now.

    The cluster does that itself for a single broker, after `tidemill.replica.replacement.delay.ms`.  If many are silent
    at once, it waits for this command.

    \b
    Examples:
      tidemill cluster replace --dry-run
      tidemill cluster replace 3 --yes
    """
    named = ", ".join(map(str, broker or [])) or "all silent brokers"
    if not dry_run:
        question = f"Declare {named} gone, and copy their replicas to other brokers?"
        confirm(question, is_sure=yes, otherwise="nothing was changed")
    done = (
        "They can be declared gone." if dry_run else "They are declared gone; `tidemill cluster moves` shows the rest."
    )
    _change(http, "/v1/brokers/replace", {"brokers": broker or [], "dry_run": dry_run}, done, as_json=as_json)


def remove(broker: BrokerArgument, yes: YesOption = False, http: HttpOption = None) -> None:
    """
    Remove a broker from the cluster that was drained and stopped, or is gone and was replaced.

    The broker must be down and carry nothing.  To come back, it needs an empty directory.

    \b
    Examples:
      tidemill cluster remove 3
      tidemill cluster remove 3 --yes
    """
    from tidemill.cli.cluster_http import ClusterHttp, http_errors

    confirm(f"Remove broker {broker} from the cluster?", is_sure=yes, otherwise="nothing was changed")
    addresses = resolve_http(http)
    with http_errors(addresses):
        ClusterHttp(addresses).delete(f"/v1/brokers/{broker}")
    print(f"Broker {broker} is removed.")


def _change(http: str | None, path: str, body: dict[str, Any], done: str, *, as_json: bool) -> None:
    """Ask for a change, and print what follows from it."""
    from tidemill.cli.cluster_http import ClusterHttp, http_errors
    from tidemill.cli.output import print_json

    addresses = resolve_http(http)
    with http_errors(addresses):
        answer = ClusterHttp(addresses).post(path, body)
    if as_json:
        print_json(answer)
    else:
        _print_findings(answer)
        if all(finding["kind"] != ALREADY for finding in answer["findings"]):
            print(done)


def _print_findings(answer: dict[str, Any]) -> None:
    for finding in answer["findings"]:
        print(finding["sentence"])


def _print_led_alone(http: str | None, broker: int) -> None:
    """Print which shards a broker leads although its leaders are drained: no other broker has a replica of them."""
    from tidemill.cli.cluster_http import ClusterHttp, http_errors
    from tidemill.cli.cluster_waits import led_alone

    addresses = resolve_http(http)
    with http_errors(addresses):
        alone = led_alone(ClusterHttp(addresses), broker)
    if alone:
        named = ", ".join(map(str, alone[:SHARDS_NAMED_MAX]))
        more = f" and {len(alone) - SHARDS_NAMED_MAX} more" if len(alone) > SHARDS_NAMED_MAX else ""
        shards = "shard" if len(alone) == 1 else "shards"
        it = "it is" if len(alone) == 1 else "they are"
        print(
            f"Broker {broker} still leads {shards} {named}{more}: it has the only replica, and {it} not served while "
            "the broker is down.",
            file=sys.stderr,
        )


def _wait(http: str | None, option: str | None, left: Any, broker: int, awaited: "Awaited") -> None:
    from tidemill.cli.cluster_http import ClusterHttp, http_errors
    from tidemill.cli.cluster_waits import wait

    addresses = resolve_http(http)
    cluster = ClusterHttp(addresses)
    with http_errors(addresses):
        wait(option, lambda: left(cluster, broker), awaited, http=http)
