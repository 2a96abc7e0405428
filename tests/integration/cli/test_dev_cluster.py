"""`tidemill dev --brokers N`: a cluster of real processes, and failures of its brokers."""

import json
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.cli.command import tidemill
from tests.integration.cli.dev_cluster import Cluster, running_cluster, started_again
from tidemill.client import broker_http

SECONDS_MAX = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers, shared by tests that do not disturb them."""
    with running_cluster(tmp_path_factory.mktemp("three") / "data", 3) as cluster:
        yield cluster


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return b"tidemill" in Path(f"/proc/{pid}/cmdline").read_bytes()  # empty for a process that has ended


def until(is_so: Callable[[], bool], what: str) -> None:
    """Poll until a condition holds, because other processes offer no event to wait for."""
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_the_ready_line_lists_every_broker(cluster: Cluster) -> None:
    """
    The ready line contains each broker's addresses, pid, directory and command, and the first broker's addresses at the
    top level.
    """
    first, *_ = cluster.brokers

    assert [1, 2, 3] == [broker["id"] for broker in cluster.brokers]
    assert ("ready", cluster.process.pid) == (cluster.ready["event"], cluster.ready["pid"])
    assert (first["kafka"], first["http"]) == (cluster.ready["kafka"], cluster.ready["http"])
    assert 9 == len({broker[name] for broker in cluster.brokers for name in ("kafka", "http", "peer")})
    assert all(is_there(broker["pid"]) for broker in cluster.brokers)
    assert [f"{cluster.ready['data']}/broker-{number}" for number in (1, 2, 3)] == [
        broker["data"] for broker in cluster.brokers
    ]


def test_a_healthy_start_causes_no_warning(cluster: Cluster) -> None:
    """
    A broker that starts a moment later than the others is not a problem, so no link is reported as missing, not even at
    level info.  Each broker's ready event names its addresses and its directory.
    """
    ready = {event["broker"]: event for event in cluster.events() if event["event"] == "ready"}

    assert [] == cluster.warnings()
    assert [] == [event for event in cluster.events() if "no link" in event["event"]]
    assert [{key: broker[key] for key in ("kafka", "http", "peer", "data")} for broker in cluster.brokers] == [
        {key: ready[number][key] for key in ("kafka", "http", "peer", "data")} for number in (1, 2, 3)
    ]


def test_configurations_come_from_the_broker_that_is_named(cluster: Cluster) -> None:
    """
    A broker describes only itself, so the command finds the address of the named broker.  The bootstrap address may
    belong to another broker.
    """
    bootstrap = cluster.brokers[0]["kafka"]
    key = "log.segment.delete.delay.ms"

    changed = [
        tidemill("configs", command, "--broker", "3", text, bootstrap=bootstrap).exit_code
        for command, text in (("set", f"{key}=1000"), ("describe", key), ("unset", key))
    ]
    described = [
        json.loads(
            tidemill("configs", "describe", "--broker", str(number), "node.id", "--json", bootstrap=bootstrap).out
        )
        for number in (1, 2, 3)
    ]

    assert [0, 0, 0] == changed
    assert ["1", "2", "3"] == [it["configs"][0]["value"] for it in described]


def test_ready_means_that_three_voters_have_the_metadata(cluster: Cluster) -> None:
    """
    A ready cluster survives the loss of any one broker, and every broker knows the HTTP listeners of the others.
    """
    led = []
    for broker in cluster.brokers:
        (shard,) = broker_http.ask(broker["http"], "/v1/shards", topic="__tidemill_metadata")["shards"]
        led += [shard["led_here"]] if shard["led_here"] else []
    told = broker_http.ask(cluster.brokers[2]["http"], "/v1/brokers")

    assert [[1, 2, 3]] == [sorted(view["voters"]) for view in led]
    assert 3 == told["answered_by"]
    assert [(broker["http"], True) for broker in cluster.brokers] == [
        (f"{end['host']}:{end['port']}", row["is_live"])
        for row in told["brokers"]
        for end in row["endpoints"]
        if end["name"] == "HTTP"
    ]


def test_the_cluster_key_is_kept_secret(cluster: Cluster) -> None:
    """
    No command line contains the cluster key, and only its owner can read the files that contain it.
    """
    directory = Path(cluster.ready["data"])
    key = (directory / "cluster.key").read_text().strip()
    holders = [directory / "cluster.key", *directory.glob("broker-*.yaml")]
    command_lines = [Path(f"/proc/{broker['pid']}/cmdline").read_bytes() for broker in cluster.brokers]

    assert len(key) > 40 and 4 == len(holders)
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in holders}
    assert not any(key.encode() in line for line in command_lines)


def test_a_second_command_does_not_disturb_a_running_cluster(cluster: Cluster) -> None:
    """
    A second command on the same directory fails, names the process that uses it, and changes no settings.
    """
    directory = Path(cluster.ready["data"])
    before = {path: path.read_bytes() for path in directory.glob("broker-*.yaml")}

    refused = tidemill("dev", "--brokers", "3", "--data", str(directory), "--json")

    after = {path: path.read_bytes() for path in directory.glob("broker-*.yaml")}
    assert (1, "", before) == (refused.exit_code, refused.out, after)
    assert f"in use by process {cluster.process.pid}" in refused.err


@pytest.mark.parametrize("number", [1, 2])
def test_a_killed_broker_is_reported_and_can_be_restarted_by_its_command(tmp_path: Path, number: int) -> None:
    """
    After any one broker is killed, the others serve every partition of the existing topics, and a new topic can be
    created and written.  The command in the ready line restarts the broker at its old addresses.
    """
    with running_cluster(tmp_path / "data", 3) as cluster:
        victim = cluster.brokers[number - 1]
        pid = victim["pid"]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        made = tidemill("topics", "create", "orders", "--partitions", "6", bootstrap=cluster.bootstrap)
        write_one(cluster, "on-demand")
        replicas = {
            (topic, len(partition.replicas))
            for topic in ("orders", "on-demand")
            for partition in admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions.values()
        }
        os.kill(pid, signal.SIGKILL)
        lines = "".join(f"{key}:{key}\n" for key in range(60)).encode()
        produced = tidemill("produce", "orders", "--key-separator", ":", bootstrap=cluster.bootstrap, stdin=lines)
        consumed = tidemill("consume", "orders", "--from", "earliest", "--format", "json", bootstrap=cluster.bootstrap)
        records = [json.loads(line) for line in consumed.out.splitlines()]
        until(
            lambda: any(event["event"] == "broker exited" for event in cluster.events()),
            "the broker's end was not reported",
        )
        admin.create_topics([NewTopic("t", 2, 2)], operation_timeout=SECONDS_MAX)["t"].result(SECONDS_MAX)
        refused: list[object] = []
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
        producer.produce("t", b"v", on_delivery=lambda error, _: refused.append(error))
        left = producer.flush(SECONDS_MAX)
        time.sleep(1)  # by then, a broker that is restarted automatically would be running
        is_back = [broker_http_answers(victim["http"])]
        with started_again(victim):
            survivor = next(broker for broker in cluster.brokers if broker is not victim)
            until(lambda: live_count(survivor["http"]) == 3, "the broker did not become live again")
            is_back.append(broker_http_answers(victim["http"]))
    (told,) = [event for event in cluster.events() if event["event"] == "broker exited"]

    assert {("orders", 3), ("on-demand", 3)} == replicas, made.err
    assert (0, set(range(60)), set(range(6))) == (
        produced.exit_code,
        {int(record["value"]) for record in records},
        {record["partition"] for record in records},
    ), (produced.err, consumed.err)
    assert (0, [None], [False, True]) == (left, refused, is_back)
    assert (number, pid, "signal SIGKILL") == (told["broker"], told["pid"], told["status"])
    assert " ".join(victim["command"]) == told["restart_command"]


def broker_http_answers(address: str) -> bool:
    try:
        broker_http.ask(address, "/v1/cluster")
    except broker_http.NoResponse:
        return False
    return True


def live_count(address: str) -> int:
    return int(broker_http.ask(address, "/v1/cluster")["brokers_live"])


def test_a_cluster_restarts_at_its_addresses_and_never_shrinks(tmp_path: Path) -> None:
    """
    A cluster restarts on its directory at the same addresses and without a warning, optionally with an additional
    broker.  A restart with a single broker is refused.
    """
    data = tmp_path / "data"
    with running_cluster(data, 2) as cluster:
        before = [(broker["kafka"], broker["http"], broker["peer"]) for broker in cluster.brokers]
        write_one(cluster, "early")
        code = cluster.stop()
    with running_cluster(data, 3) as cluster:
        after = [(broker["kafka"], broker["http"], broker["peer"]) for broker in cluster.brokers]
        warnings = cluster.warnings()
        write_one(cluster, "late")
        early = tidemill("consume", "early", "--bootstrap", cluster.bootstrap)
    one = tidemill("dev", "--data", str(data), "--json")

    assert (0, before, []) == (code, after[:2], warnings)
    assert 3 == len(after) and "early\n" == early.out, early.err
    assert 2 == one.exit_code and "use the same --brokers" in one.err


def test_a_first_broker_that_lost_its_directory_rejoins_the_cluster(tmp_path: Path) -> None:
    """
    The restarted first broker joins the existing cluster as a new voter and gets its data back; it does not bootstrap a
    new cluster.
    """
    with running_cluster(tmp_path / "data", 3) as cluster:
        write_one(cluster, "kept")
        victim, survivor, _ = cluster.brokers
        before = cluster_id(survivor["http"])
        os.kill(victim["pid"], signal.SIGKILL)
        until(
            lambda: any(event["event"] == "broker exited" for event in cluster.events()),
            "the broker's end was not reported",
        )
        shutil.rmtree(victim["data"])
        with started_again(victim):
            until(lambda: live_count(survivor["http"]) == 3, "the broker did not become live again")
            assert before == cluster_id(victim["http"])
            until(lambda: has_segment_with(b"kept", Path(victim["data"])), "its replica was not restored")


def test_the_end_of_the_last_broker_is_reported(tmp_path: Path) -> None:
    """
    When all brokers of `tidemill dev` have ended, it says so and keeps running, because brokers may be started by hand.
    """
    with running_cluster(tmp_path / "data", 2) as cluster:
        for broker in cluster.brokers:
            os.kill(broker["pid"], signal.SIGKILL)

        until(
            lambda: any(event["event"] == "no broker is left" for event in cluster.events()),
            "the end of the last broker was not reported",
        )


def has_segment_with(value: bytes, data: Path) -> bool:
    return any(value in segment.read_bytes() for segment in data.rglob("*.log"))


def write_one(cluster: Cluster, topic: str) -> None:
    """
    Produce a record to a topic that does not exist yet, and check that it is acknowledged.  Its value is the topic's
    name.
    """
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    producer.produce(topic, topic.encode(), on_delivery=lambda error, _: refused.append(error))
    assert (0, [None]) == (producer.flush(SECONDS_MAX), refused)


def cluster_id(address: str) -> str:
    return str(broker_http.ask(address, "/v1/cluster")["cluster_id"])


def test_brokers_do_not_outlive_their_parent(tmp_path: Path) -> None:
    """
    The brokers shut down cleanly when their parent process ends, even if it is killed.
    """
    with running_cluster(tmp_path / "data", 2) as cluster:
        cluster.process.kill()

        until(
            lambda: not any(is_there(broker["pid"]) for broker in cluster.brokers),
            "brokers are still running without their parent",
        )

    assert 2 == [event["event"] for event in cluster.events()].count("stopped")


def test_a_broker_that_cannot_start_ends_the_command(tmp_path: Path) -> None:
    """
    If a broker's port is in use, the command stops all brokers and fails with an error that names the port.
    """
    with running_cluster(tmp_path / "other", 2) as other:
        taken = other.brokers[1]["kafka"]
        before = int(taken.rpartition(":")[2]) - 1

        addresses = ("--kafka", f"127.0.0.1:{before}", "--http", "127.0.0.1:0")
        refused = tidemill("dev", "--brokers", "2", "--data", str(tmp_path / "data"), *addresses, "--json")

    assert 1 == refused.exit_code and "--kafka=127.0.0.1" in refused.err and "in use" in refused.err


def test_a_broker_that_was_removed_while_it_ran_ends(tmp_path: Path) -> None:
    """
    A broker that hangs is not heard, so it can be removed.  When it runs again, the other brokers tell it; it says what
    to do, stops, and ends with the exit code after which a service is not started again.
    """
    with running_cluster(tmp_path / "data", 4) as cluster:
        removed = cluster.brokers[3]
        os.kill(removed["pid"], signal.SIGSTOP)
        try:
            http = cluster.brokers[0]["http"]
            until(
                lambda: tidemill("cluster", "remove", "4", "--yes", "--http", http).exit_code == 0,
                "it is removed as soon as it is not heard",
            )
        finally:
            os.kill(removed["pid"], signal.SIGCONT)
        until(lambda: not is_there(removed["pid"]), "it ends")
        until(lambda: any(it["event"] == "broker exited" for it in cluster.events()), "its end is reported")

        (told,) = [it for it in cluster.events() if it["event"] == "removed from the cluster"]
        (exited,) = [it for it in cluster.events() if it["event"] == "broker exited"]

    assert (4, "error") == (told["broker"], told["level"])
    assert "start it on an empty directory" in told["problem"]
    assert (4, "exit code 2") == (exited["broker"], exited["status"])
