"""Collects the state of a cluster: one broker lists all brokers, and each live broker reports the shards it leads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tidemill.client.broker_http import NoResponse, Refused, ask, ask_readiness, from_first

PAGE: Final = 1_000
TIMEOUT_S: Final = 1.0  # slower brokers are shown as down, because the tables are updated every second
METADATA_SHARD: Final = 0  # the shard of which every broker is a voter or a learner
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The state of a cluster at one moment."""

    cluster: Row  # `/v1/cluster` of the first broker that responded
    # `/v1/brokers`, with `status`: up, down, or why the broker reports no shards; and `problems`: those of the broker's
    # `/health/ready`, or none if it does not respond.
    brokers: list[Row]
    shards: list[Row]  # `/v1/shards` of the shards' leaders, with `state`: ok, degraded, leaderless, or unknown
    addresses: list[str]  # of the brokers' HTTP listeners; the first is that of the broker that responded
    notes: Sequence[str] = ()  # the addresses that failed before one responded, each with the reason

    def as_json(self) -> Row:
        """Return the object that `tidemill cluster status --json` prints."""
        return {"cluster": self.cluster, "brokers": self.brokers, "shards": self.shards, "notes": [*self.notes]}


def read_view(addresses: Sequence[str]) -> ClusterView:
    """
    Return the state of the cluster, starting from the first of `addresses` that responds.

    Raise NoResponse if none responds, NotReady if those that respond are starting, and Refused if a broker refuses the
    request.
    """
    _, view, failures = from_first(addresses, _read_view)
    return replace(view, notes=[f"{failure}; asked the next address" for failure in failures])


def _read_view(address: str) -> ClusterView:
    cluster = ask(address, "/v1/cluster", timeout_s=TIMEOUT_S)
    brokers: list[Row] = ask(address, "/v1/brokers", timeout_s=TIMEOUT_S)["brokers"]
    shards = {row["shard_id"]: row for row in _pages(address)}
    others: list[str] = []
    for broker in brokers:
        http_address = address if broker["broker_id"] == cluster["answered_by"] else http_address_of(broker)
        if http_address is not None and http_address != address:
            others.append(http_address)
        broker["status"] = "up"
        broker["problems"] = []
        if not broker["is_live"]:
            broker["status"] = "down"
        elif http_address is None:
            broker["status"] = "up, but not reporting: it announces no HTTP listener"
        elif http_address != address:
            try:
                for row in _pages(http_address, leader=broker["broker_id"]):
                    if row["led_here"] is not None:
                        shards[row["shard_id"]] = row
            except NoResponse:
                broker["status"] = "down"
            except Refused as refused:
                broker["status"] = f"up, but not reporting: {refused}"
        if broker["is_live"] and http_address is not None and broker["status"] != "down":
            try:
                broker["problems"] = ask_readiness(http_address, timeout_s=TIMEOUT_S)["problems"]
            except NoResponse:
                broker["status"] = "down"
    for row in shards.values():
        row["state"] = state_of(row)
    return ClusterView(
        cluster=cluster,
        brokers=brokers,
        shards=[row for _, row in sorted(shards.items())],
        addresses=[address, *others],
    )


def state_of(row: Row) -> str:
    """
    Return the state of a shard: `ok`, `degraded`, `leaderless` or `unknown`.

    A shard is `leaderless` if it has no known leader, and `unknown` if its leader does not report it.  Otherwise it is
    `ok` if all its replicas are live voters, and `degraded` if not.
    """
    led = row["led_here"]
    if led is None:
        return "leaderless" if row["leader"] is None else "unknown"
    voters = set(led["voters"])
    is_whole = voters == set(row["replicas"]) and (row["shard_id"] == METADATA_SHARD or not led["learners"])
    are_alive = all(member["is_live"] for member in led["members"] if member["broker_id"] in voters)
    return "ok" if is_whole and are_alive else "degraded"


def address_of(endpoint: Row) -> str:
    """Return HOST:PORT, with brackets around an IPv6 address."""
    host = endpoint["host"]
    return f"[{host}]:{endpoint['port']}" if ":" in host else f"{host}:{endpoint['port']}"


def http_address_of(broker: Row) -> str | None:
    return next((address_of(endpoint) for endpoint in broker["endpoints"] if endpoint["name"] == "HTTP"), None)


def _pages(address: str, **query: str | int) -> Iterator[Row]:
    after: int | None = -1
    while after is not None:
        page = ask(address, "/v1/shards", timeout_s=TIMEOUT_S, limit=PAGE, after=after, **query)
        yield from page["shards"]
        after = page["next_after"]
