"""Waits until what was asked of the cluster is done, and shows on stderr how far it has come."""

import sys
import time
from collections.abc import Callable, Iterator
from shlex import quote
from typing import Any, Final, NamedTuple

from tidemill.cli.cluster_http import ClusterHttp
from tidemill.cli.duration import duration_ms
from tidemill.cli.failure import Failed
from tidemill.cli.output import counted
from tidemill.client.broker_http import NoResponse, NotReady, Refused
from tidemill.model.data_size import size_text

POLL_S: Final = 0.5
SHOW_S: Final = 10.0  # between two lines if stderr is not a terminal
PAGE: Final = 1_000  # shards in one answer
SHARDS_NAMED_MAX: Final = 5
WAIT_MS_MAX: Final = 30 * 24 * 3_600_000

Left = Callable[[], str | None]  # returns what is left to do; None: nothing


class Awaited(NamedTuple):
    """What a command waits for, in the words of its progress and of its error."""

    doing: str  # "draining broker 3"
    undone: str  # "broker 3 is not drained"
    goes_on: str  # "the drain goes on": what happens now that the command has ended
    again: str  # the arguments of `tidemill` that wait again, without --wait


def wait(option: str | None, left: Left, awaited: Awaited, *, http: str | None) -> None:
    """
    Wait until nothing is left, if `option` is given.  Raise Failed after that time, with what is left, whether the
    cluster goes on, and how to look again; Ctrl-C shows the latter two.  `http` is the option --http of the command.
    Raise Refused for what will not pass.
    """
    if option is None:
        return
    until = time.monotonic() + duration_ms(option, option="--wait", at_most_ms=WAIT_MS_MAX) / 1_000
    again = f"tidemill {awaited.again} --wait {quote(option)}" + ("" if http is None else f" --http {quote(http)}")
    try:
        _wait(option, until, left, awaited, again)
    except KeyboardInterrupt:
        print(f"\n{awaited.goes_on}; wait again with `{again}`", file=sys.stderr)
        raise


def _wait(option: str, until: float, left: Left, awaited: Awaited, again: str) -> None:
    shown_at, is_terminal = -SHOW_S, sys.stderr.isatty()
    while True:
        try:
            text = left()
        except (NoResponse, NotReady) as problem:  # such as a new controller that has to begin
            text = str(problem)
        if text is None:
            break
        now = time.monotonic()
        if now >= until:
            raise Failed(f"{awaited.undone} after {option}: {text}.  {awaited.goes_on}; wait again with `{again}`")
        if is_terminal:
            print(f"\r\x1b[K{awaited.doing}: {text}", end="", file=sys.stderr, flush=True)
        elif now - shown_at >= SHOW_S:
            print(f"{awaited.doing}: {text}", file=sys.stderr)
            shown_at = now
        time.sleep(POLL_S)
    if is_terminal:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def leaders_left(cluster: ClusterHttp, broker_id: int) -> str | None:
    """
    Return how many shards a broker still leads that others can lead.  The only replica of a shard leads it as long as
    it is there, however long one waits.
    """
    led = sum(row["replicas"] != [broker_id] for row in _led(cluster, broker_id))
    return f"it leads {counted(led, 'shard')}" if led else None


def led_alone(cluster: ClusterHttp, broker_id: int) -> list[int]:
    """Return the shards that a broker leads because it has the only replica."""
    return [row["shard_id"] for row in _led(cluster, broker_id) if row["replicas"] == [broker_id]]


def _led(cluster: ClusterHttp, broker_id: int) -> Iterator[dict[str, Any]]:
    after: int | None = -1
    while after is not None:
        page = cluster.get("/v1/shards", leader=broker_id, after=after, limit=PAGE)
        yield from page["shards"]
        after = page["next_after"]


def replicas_left(cluster: ClusterHttp, broker_id: int) -> str | None:
    """Return what a broker still carries, planned or in force."""
    report = cluster.get("/v1/rebalance")
    found = cluster.get("/v1/moves")  # afterwards, so that a replica planned elsewhere meanwhile is in one of them
    leaving = [row for row in found["moves"] if broker_id in row["voters"] and broker_id not in row["replicas"]]
    row = next((row for row in report["brokers"] if row["broker_id"] == broker_id), None)
    if row is None or not (row["replicas"] or leaving):
        return _unlisted_text(found) or untold_text(found)
    to_copy = size_text(sum(it["remaining"] for it in leaving))
    off = f"; re-placement is off: {report['why']}" if report["status"] == "off" else ""
    return f"{counted(row['replicas'] + len(leaving), 'shard')} left, {len(leaving)} under way, {to_copy} to copy{off}"


def move_left(cluster: ClusterHttp, shard_id: int) -> str | None:
    """Return how much of a shard has to be copied still."""
    found = cluster.get("/v1/moves")
    row = next((row for row in found["moves"] if row["shard_id"] == shard_id), None)
    if row is None:
        are_others = 0 < found["untold"] == len(found["untold_shards"]) and shard_id not in found["untold_shards"]
        return _unlisted_text(found) or (None if are_others else untold_text(found))
    return f"voters {row['voters']}, {size_text(row['remaining'])} to copy"


def sync_left(cluster: ClusterHttp, broker_id: int) -> str | None:
    """Return why the cluster does not count on a broker again, or it does not serve all that it carries."""
    row = _broker(cluster, broker_id)
    if row is None or not row["is_live"]:
        return "it is not live"
    if not row["is_ready"]:
        return "it is not ready to lead"
    if row["presence"] != "active":
        return f"it is {row['presence']} until it has been back for a while"
    untold = row["untold"]
    late = row["not_in_sync"] - untold
    parts = [f"{counted(late, 'shard')} not in sync"] if late else []
    if untold:
        parts.append(
            f"the leaders of {counted(untold, 'shard')} have not told the controller yet; if that lasts, `tidemill "
            "cluster rebalance` says why"
        )
    return ", ".join(parts) or None


def majority_left(cluster: ClusterHttp, broker_id: int) -> str | None:
    """
    Return which shards would lose their in-sync majority without a broker.  Raise Refused if waiting does not help, as
    for a topic of two replicas.
    """
    answer = cluster.get(f"/v1/brokers/{broker_id}/may-stop")
    if answer["may_stop"]:
        return None
    lasting = [it["sentence"] for it in answer["findings"] if it["kind"] == "replicas"]
    if lasting:
        raise Refused(
            f"broker {broker_id} cannot stop without a pause, however long you wait: {_several(lasting)}.  Give their "
            "topics three replicas, or stop the broker all the same: they are not served until it is back"
        )
    return _several([it["sentence"] for it in answer["findings"]])


def _several(sentences: list[str]) -> str:
    more = f"; and {len(sentences) - 3} more" if len(sentences) > 3 else ""
    return "; ".join(sentences[:3]) + more


def _unlisted_text(found: dict[str, Any]) -> str | None:
    """Return how many shards are under way that `/v1/moves` does not list, because there are very many."""
    more = found["count"] - len(found["moves"])
    return f"{counted(more, 'shard')} more under way than are listed" if more else None


def untold_text(found: dict[str, Any]) -> str | None:
    """Return which shards may be under way although `/v1/moves` lacks them: a new controller has to be told."""
    if not found["untold"]:
        return None
    named = found["untold_shards"][:SHARDS_NAMED_MAX]
    more = found["untold"] - len(named)
    which = f"shard {named[0]}" if found["untold"] == len(named) == 1 else f"shards {', '.join(map(str, named))}"
    which = f"{which} and {more} more" if named and more else which if named else counted(more, "shard")
    return f"the voters of {which} are not known yet; if that lasts, `tidemill cluster rebalance` says why"


def _broker(cluster: ClusterHttp, broker_id: int) -> dict[str, Any] | None:
    rows = cluster.get("/v1/rebalance")["brokers"]
    return next((row for row in rows if row["broker_id"] == broker_id), None)
