"""The view of a cluster combines the reports of its brokers, and shows which brokers have not reported."""

from typing import Any

import pytest

from tidemill.cli import cluster_view
from tidemill.cli.status_tables import broker_cells, problem_cells, shard_cells, title_of
from tidemill.client.broker_http import NoResponse, NotReady, Refused


def broker(number: int, *, is_live: bool = True) -> dict[str, Any]:
    endpoints = [
        {"name": "PLAINTEXT", "host": "127.0.0.1", "port": 9091 + number},
        {"name": "HTTP", "host": "127.0.0.1", "port": 9079 + number},
    ]
    age_ms = 7 if is_live else None
    counts = {"shards_led": 1, "shards_carried": 2, "rack": None}
    return {"broker_id": number, "is_live": is_live, "heartbeat_age_ms": age_ms, "endpoints": endpoints, **counts}


def shard(shard_id: int, leader: int | None, *, led: dict[str, Any] | None = None) -> dict[str, Any]:
    where = {"first_partition": 0, "partition_count": 4, "replicas": [1, 2]}
    return {"shard_id": shard_id, "topic": "t", **where, "leader": leader, "term": 3, "led_here": led}


def led(*lags: int | None, voters: tuple[int, ...] = (1, 2), dead: tuple[int, ...] = ()) -> dict[str, Any]:
    members = [
        {"broker_id": number, "is_live": number not in dead, "lag_rows": lag}
        for number, lag in zip(voters, lags, strict=True)
    ]
    return {"voters": list(voters), "learners": [], "commit_index": 9, "size_bytes": 70, "members": members}


class Brokers:
    """The HTTP listeners of a fake cluster.  Brokers in `silent` do not respond, and those in `refusing` refuse to list
    shards.
    """

    def __init__(self, brokers: list[dict[str, Any]], shards: dict[int, list[dict[str, Any]]]) -> None:
        self.brokers = brokers
        self.shards = shards  # responses by broker id
        self.silent: set[int] = set()
        self.refusing: set[int] = set()
        self.starting: set[int] = set()
        self.problems: dict[int, list[dict[str, Any]]] = {}  # in the responses to /health/ready, by broker id

    def ask_readiness(self, address: str, *, timeout_s: float) -> dict[str, Any]:
        number = int(address.rpartition(":")[2]) - 9079
        if number in self.silent:
            raise NoResponse(address)
        return {"status": "not ready", "problems": self.problems.get(number, [])}

    def ask(self, address: str, path: str, *, timeout_s: float, **query: str | int) -> dict[str, Any]:
        number = int(address.rpartition(":")[2]) - 9079
        if number in self.silent:
            raise NoResponse(address)
        if number in self.starting:
            raise NotReady(address)
        match path:
            case "/v1/cluster":
                counts = {"brokers": len(self.brokers), "brokers_live": 1, "topics": 1, "internal_topics": 2}
                return {"answered_by": number, "cluster_id": "c", "controller": None, "shards": 3, **counts}
            case "/v1/brokers":
                return {"brokers": [dict(row) for row in self.brokers]}
        if number in self.refusing:
            raise Refused("not to you")
        wanted = [row for row in self.shards[number] if query.get("leader") in (None, row["leader"])]
        rest = [dict(row) for row in wanted if row["shard_id"] > int(query["after"])]
        return {"shards": rest[:1], "next_after": rest[0]["shard_id"] if rest[1:] else None}


def read_view(brokers: Brokers, monkeypatch: pytest.MonkeyPatch, *numbers: int) -> cluster_view.ClusterView:
    monkeypatch.setattr(cluster_view, "ask", brokers.ask)
    monkeypatch.setattr(cluster_view, "ask_readiness", brokers.ask_readiness)
    return cluster_view.read_view([f"127.0.0.1:{9079 + number}" for number in numbers or (1,)])


def test_each_leader_reports_its_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The view asks every leader for the shards that it leads, because the first broker has no details of shards led by
    others.
    """
    first = [shard(1, 1, led=led(0, 5)), shard(2, 2), shard(3, None)]
    second = [shard(1, 1), shard(2, 2, led=led(1, 0)), shard(3, None)]
    brokers = Brokers([broker(1), broker(2)], {1: first, 2: second})

    view = read_view(brokers, monkeypatch)

    assert [(1, "ok"), (2, "ok"), (3, "leaderless")] == [(row["shard_id"], row["state"]) for row in view.shards]
    assert ["up", "up"] == [row["status"] for row in view.brokers]
    assert [
        (1, "t", "0-3", "ok", 1, 3, 9, "1,2", "-", "2:5", 70),
        (2, "t", "0-3", "ok", 2, 3, 9, "1,2", "-", "1:1", 70),
        (3, "t", "0-3", "leaderless", None, 3, None, "1,2", "-", "-", None),
    ] == shard_cells(view.shards)
    assert (1, "up", "127.0.0.1:9092", "127.0.0.1:9080", None, 7, 1, 2) == broker_cells(view)[0]


def test_the_title_says_which_topics_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    `topics list` shows no internal topics, so the title counts them separately.
    """
    view = read_view(Brokers([broker(1)], {1: []}), monkeypatch)

    assert "1 topic, 2 internal topics, 3 shards" in title_of(view)


def test_an_unknown_lag_is_shown_as_unknown() -> None:
    """
    The lag of a follower is shown as `?` if the follower has acknowledged nothing in its leader's term, because the
    leader does not know it.
    """
    (cells,) = shard_cells([shard(1, 1, led=led(0, None)) | {"state": "degraded"}])

    assert "2:?" == cells[-2]


def test_each_broker_lists_its_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    All shards may be ok while the disk of a broker is full, so the problems of every broker that responds are shown,
    too.
    """
    brokers = Brokers([broker(1), broker(2), broker(3)], {1: [], 2: [], 3: []})
    full, late = [{"problem": name, "count": 1, "detail": f"{name}: act"} for name in ("disk_full", "draining")]
    brokers.problems = {1: [late], 2: [full, late], 3: [full]}
    brokers.silent = {3}

    view = read_view(brokers, monkeypatch)

    assert [[late], [full, late], []] == [row["problems"] for row in view.brokers]
    assert [
        (1, "draining", 1, "draining: act"),
        (2, "disk_full", 1, "disk_full: act"),
        (2, "draining", 1, "draining: act"),
    ] == problem_cells(view)


@pytest.mark.parametrize(
    ("is_live", "silent", "refusing", "status"),
    [(False, {2}, set(), "down"), (True, {2}, set(), "down"), (True, set(), {2}, "up, but not reporting: not to you")],
)
def test_a_broker_that_does_not_report_is_shown(
    monkeypatch: pytest.MonkeyPatch, is_live: bool, silent: set[int], refusing: set[int], status: str
) -> None:
    """
    A broker that does not report is shown as such, and the state of its shards is unknown.
    """
    brokers = Brokers([broker(1), broker(2, is_live=is_live)], {1: [shard(2, 2)], 2: [shard(2, 2, led=led(0, 0))]})
    brokers.silent, brokers.refusing = silent, refusing

    view = read_view(brokers, monkeypatch)

    assert (["up", status], ["unknown"]) == (
        [row["status"] for row in view.brokers],
        [row["state"] for row in view.shards],
    )


@pytest.mark.parametrize(
    "led_here",
    [led(0, voters=(1,)), led(0, 4, dead=(2,)), {**led(0, 0), "learners": [3]}],
    ids=["a replica is not a voter yet", "a voter is dead", "there is a learner"],
)
def test_a_shard_is_ok_if_every_replica_is_a_live_voter(led_here: dict[str, Any]) -> None:
    """
    A shard is ok if every replica is a live voter.  Lag alone is not a problem, because every write causes some.
    """
    assert ["ok", "degraded"] == [
        cluster_view.state_of(shard(1, 1, led=led(0, 500))), cluster_view.state_of(shard(1, 1, led=led_here)),
    ]  # fmt: skip


def test_another_broker_is_asked_when_the_first_does_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If the first broker does not respond, the view asks another one, and a note says so.  It raises NoResponse only if
    none of them responds, and then names all of them.
    """
    brokers = Brokers([broker(1), broker(2)], {1: [], 2: []})
    both = read_view(brokers, monkeypatch).addresses
    brokers.silent = {1}

    view = read_view(brokers, monkeypatch, 1, 2)

    assert (["127.0.0.1:9080", "127.0.0.1:9081"], 2) == (both, view.cluster["answered_by"])
    assert ["127.0.0.1:9080; asked the next address"] == view.notes == view.as_json()["notes"]
    brokers.silent = {1, 2}
    with pytest.raises(NoResponse, match=r"^127.0.0.1:9080; 127.0.0.1:9081$"):
        read_view(brokers, monkeypatch, 1, 2)
    brokers.silent, brokers.starting = set(), {1}
    assert read_view(brokers, monkeypatch, 1, 2).cluster["answered_by"] == 2
    brokers.silent = {1, 2}
    with pytest.raises(NoResponse):
        read_view(brokers, monkeypatch, 1, 2)
