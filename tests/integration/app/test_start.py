"""A broker process starts, reports its addresses, stops in time and restarts, or reports in one sentence why it cannot
start.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource

from tidemill.app import start
from tidemill.app.settings import dev_settings
from tidemill.app.start_problem import StartProblem

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")} | {
    "PYTHONPATH": str(ROOT / "src")
}
OF_THE_MACHINE = ("event loop stalled", "compiled extension not found", "clean stop timed out")
"""Warnings that are caused by the machine, if it is busy or has no compiler, and not by the broker."""

BUSY_RECORDS = 1_000  # records that a broker under load has acknowledged when the test stops it
BUSY_S_MAX = 60
FREE_PORTS = ("--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0")


def started(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tidemill", *arguments, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | environment,
    )


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Run a broker, and yield its process and its parsed ready line."""
    with started(*arguments, **environment) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def refused(*arguments: str) -> tuple[int, str, str]:
    """Run a broker that must fail to start; return its exit code, its stdout, and the last message on stderr."""
    with started(*arguments) as process:
        out, errors = process.communicate(timeout=30)
    lines = [json.loads(line) for line in errors.splitlines()]
    return process.returncode, out, lines[-1]["message"]


def imported(errors: str) -> set[str]:
    """Return the modules imported by a process that ran with PYTHONPROFILEIMPORTTIME."""
    return {line.rpartition("|")[2].strip() for line in errors.splitlines() if line.startswith("import time:")}


def logged(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """
    Return the events that a process has written to stderr until its end, except warnings about the machine
    (`OF_THE_MACHINE`).
    """
    assert process.stderr is not None
    events = [json.loads(line) for line in process.stderr]
    return [event for event in events if not event["event"].startswith(OF_THE_MACHINE)]


def stop(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send the signal and wait for the process to end."""
    process.send_signal(number)
    process.wait(timeout=30)


def test_the_ready_line_has_addresses_directory_and_pid(tmp_path: Path) -> None:
    """The ready line contains the actual ports, the data directory, and the pid of the process to stop.  The event on
    stderr has the same addresses and directory.
    """
    with running("dev", "--data", str(tmp_path / "data"), *FREE_PORTS) as (process, ready):
        stop(process, signal.SIGTERM)
        (event,) = [event for event in logged(process) if event["event"] == "ready"]
        addresses = {key: ready.pop(key) for key in ("kafka", "http", "peer")}
        ports = [int(address.removeprefix("127.0.0.1:")) for address in addresses.values()]

        assert 0 not in ports
        assert {"event": "ready", "data": str(tmp_path / "data"), "pid": process.pid} == ready
        assert addresses | {"data": ready["data"]} == {key: event[key] for key in (*addresses, "data")}


def test_a_restarted_broker_keeps_its_peer_port_and_dials_no_address_of_its_own(tmp_path: Path) -> None:
    """
    A restarted broker keeps its peer port if the port is still free.  A broker logs no problem about dialling itself,
    neither at its address from before the restart nor at its address in tidemill.join.
    """
    events: list[dict[str, Any]] = []
    peers: list[str] = []

    def restart(*arguments: str, **environment: str) -> None:
        with running(*arguments, **environment) as (process, ready):
            stop(process, signal.SIGTERM)
            peers.append(ready["peer"])
            events.extend(logged(process))

    dev = ("dev", "--data", str(tmp_path), *FREE_PORTS)
    restart(*dev)
    restart(*dev)
    host, _, port = peers[0].rpartition(":")
    with socket.create_server((host, int(port))):
        restart(*dev)
    join = f"localhost:{free_port()}"
    restart(*dev, TIDEMILL_SET_JOIN=join, TIDEMILL_SET_PEER_LISTENER=join.replace("localhost", "127.0.0.1"))

    assert peers[0] == peers[1] != peers[2]
    assert [] == [event for event in events if event["level"] != "info" or "link" in event["event"]]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def peer_settings(directory: Path, number: int, peer_port: int, http_port: int, join: int | None) -> list[str]:
    """Return the arguments for a broker with a peer listener and a known HTTP port."""
    settings = {
        "broker.id": number,
        "log.dirs": directory,
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "tidemill.http.listener": f"127.0.0.1:{http_port}",
        "tidemill.peer.listener": f"127.0.0.1:{peer_port}",
    } | ({} if join is None else {"tidemill.join": f"127.0.0.1:{join}"})
    return [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]


def http_statuses(port: int, *paths: str) -> list[int]:
    """Wait until the port is open, and return the HTTP status of each path."""
    statuses = []
    until = time.monotonic() + 30
    while len(statuses) < len(paths):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{paths[len(statuses)]}", timeout=10) as response:
                statuses.append(response.status)
        except urllib.error.HTTPError as refusal:
            statuses.append(refusal.code)
        except urllib.error.URLError:
            assert time.monotonic() < until, "the port never opened"
            time.sleep(0.05)
    return statuses


def test_a_broker_waiting_to_join_is_live_and_not_ready(tmp_path: Path) -> None:
    """A broker that waits to join passes the liveness probe, which would otherwise kill it repeatedly."""
    http = free_port()
    with started("broker", *peer_settings(tmp_path, 3, free_port(), http, join=free_port())) as process:
        answered = http_statuses(http, "/health/live", "/health/ready", "/v1/brokers", "/metrics")
        stop(process, signal.SIGTERM)

    assert [200, 503, 503, 503] == answered
    assert 0 == process.returncode


def test_a_broker_waiting_for_its_controller_is_live_and_not_ready(tmp_path: Path) -> None:
    """
    While the only voter of the metadata shard is down, a starting broker is live, not ready, and serves its metrics.
    """
    peer, http = free_port(), free_port()
    second = peer_settings(tmp_path / "2", 2, free_port(), http, join=peer)
    initial_voter = peer_settings(tmp_path / "1", 1, peer, free_port(), join=None)
    with running("broker", *initial_voter), running("broker", *second) as (process, _):
        ready = http_statuses(http, "/health/ready")
        stop(process, signal.SIGTERM)
    with started("broker", *second) as process:
        answered = http_statuses(http, "/health/live", "/health/ready", "/metrics")
        stop(process, signal.SIGTERM)
        out = process.stdout.read() if process.stdout is not None else ""

    assert ([200], [200, 503, 200], "") == (ready, answered, out)
    assert 0 == process.returncode


def test_a_broker_that_cannot_join_logs_the_reason(tmp_path: Path) -> None:
    """
    The log says why joining failed, for example that the Kafka or HTTP port was configured instead of the peer port.
    """
    with running("broker", *peer_settings(tmp_path / "1", 1, free_port(), free_port(), join=None)) as (_, ready):
        asked = {name: int(ready[name].rpartition(":")[2]) for name in ("kafka", "http")}
        problems, fixes = {}, {}
        with ExitStack() as stack:
            waiting = {}
            for number, (name, port) in enumerate(asked.items(), 2):
                settings = peer_settings(tmp_path / name, number, free_port(), free_port(), join=port)
                waiting[name] = stack.enter_context(started("broker", *settings))
            for name, process in waiting.items():
                assert process.stderr is not None
                events = map(json.loads, process.stderr)
                event = next(event for event in events if event["event"] == "waiting to join")
                problems[name], fixes[name] = event["problem"], event.get("fix")
                process.terminate()

    assert all(f"no link to 127.0.0.1:{port}: " in problems[name] for name, port in asked.items())
    assert "give tidemill.cluster.key the same value" in problems["kafka"]
    assert "only brokers may connect to tidemill.peer.listener" in problems["http"]
    assert "give tidemill.cluster.key the same value" in (fixes["kafka"] or "")
    assert fixes["http"] is None  # the problem has it, and no cluster is to be founded: something answers there


@pytest.mark.parametrize("is_up", [True, False])
def test_a_replaced_directory_is_refused(tmp_path: Path, is_up: bool) -> None:
    """A broker on the old directory cannot start, whether or not the broker on the new one is running: the id belongs
    to the new directory.
    """
    peer = free_port()
    initial_voter = peer_settings(tmp_path / "1", 1, peer, free_port(), join=None)
    old, new = (peer_settings(tmp_path / name, 2, free_port(), free_port(), join=peer) for name in ("old", "new"))
    with running("broker", *initial_voter):
        with running("broker", *old) as (process, _):
            process.kill()
        with running("broker", *new) as (process, _):
            if not is_up:
                stop(process, signal.SIGTERM)
            code, out, message = refused("broker", *old)
        if not is_up:
            with running("broker", *new) as (process, ready):
                stop(process, signal.SIGTERM)
            assert ready["data"] == str(tmp_path / "new")

    assert (2, "") == (code, out)
    assert f"log.dirs={tmp_path / 'old'}: broker 2 may not join: broker.id=2 is refused" in message


def test_health_and_metrics_are_served(tmp_path: Path) -> None:
    """The HTTP listener serves health and metrics as soon as the broker is ready."""
    with running("dev", "--data", str(tmp_path), *FREE_PORTS) as (_, ready):
        producer = Producer({"bootstrap.servers": ready["kafka"]})
        for _ in range(3):
            producer.produce("flights", b"x")
        assert not producer.flush(10)
        answers = {}
        for path in ("/health/live", "/health/ready", "/metrics"):
            with urllib.request.urlopen(f"http://{ready['http']}{path}", timeout=10) as response:
                answers[path] = (response.status, response.read())

    assert {200} == {status for status, _ in answers.values()}
    metrics = dict(line.rsplit(b" ", 1) for line in answers["/metrics"][1].splitlines() if not line.startswith(b"#"))
    assert b"3.0" == metrics[b"tidemill_produce_records_total"]
    # The counts include the metadata topic.
    assert (b"2.0", b"2.0") == (metrics[b"tidemill_topics"], metrics[b"tidemill_shards"])
    assert float(metrics[b"tidemill_connections"]) >= 1


def test_settings_of_the_file_the_environment_and_set_have_the_source_static_broker_config(tmp_path: Path) -> None:
    """
    DescribeConfigs shows every setting that was given at the start with the source STATIC_BROKER_CONFIG; the HTTP
    listener has the port that is open, because clients look it up.
    """
    file = tmp_path / "broker.yaml"
    file.write_text("node.id: 7\nlog.retention.hours: 5\n")
    given = {
        "num.partitions": "3",
        "log.dirs": str(tmp_path / "data"),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "tidemill.http.listener": "127.0.0.1:0",
        "tidemill.peer.listener": "127.0.0.1:0",
    }
    sets = [argument for key, value in given.items() for argument in ("--set", f"{key}={value}")]
    environment = {"TIDEMILL_SET_MESSAGE_MAX_BYTES": "2000000"}

    with running("broker", "--config", str(file), *sets, **environment) as (_, ready):
        client, resource = AdminClient({"bootstrap.servers": ready["kafka"]}), ConfigResource("broker", "7")
        described = client.describe_configs([resource])[resource].result(10)

    static = ConfigSource.STATIC_BROKER_CONFIG.value
    expected = {"node.id": "7", "broker.id": "7", "log.retention.hours": "5", "message.max.bytes": "2000000", **given}
    expected["tidemill.http.listener"] = ready["http"]
    inherited = {"log.retention.ms", "log.retention.minutes"}  # these default to log.retention.hours, as in Kafka
    shown = {name: it.value for name, it in described.items() if it.source == static and name not in inherited}
    assert expected == shown


def test_malformed_http_requests_are_logged_at_a_limited_rate(tmp_path: Path) -> None:
    """Malformed HTTP requests cannot fill the disk with log lines."""
    with running("dev", "--data", str(tmp_path), *FREE_PORTS) as (process, ready):
        host, _, port = ready["http"].rpartition(":")
        for _ in range(100):
            with socket.create_connection((host, int(port))) as asking:
                asking.sendall(b"this is no HTTP\r\n\r\n")
                assert asking.recv(100).startswith(b"HTTP/1.1 400")
        stop(process, signal.SIGTERM)
        assert process.stderr is not None
        logged = [json.loads(line)["event"] for line in process.stderr].count("http request refused")

    assert 0 < logged < 100


def test_a_start_does_not_import_optional_modules(tmp_path: Path) -> None:
    """Importing the HTTP modules would slow down the start, so the broker imports them at the first HTTP request."""
    others = {
        "uvicorn",
        "h11",
        "prometheus_client",
        "starlette",
        "jinja2",
        "yaml",
        "rich",
        "pydantic",
        "confluent_kafka",
    }
    with started("dev", "--data", str(tmp_path), *FREE_PORTS, PYTHONPROFILEIMPORTTIME="1") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        _, errors = process.communicate(timeout=30)

    assert "tidemill.broker.broker" in imported(errors)
    assert set() == others & imported(errors)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_broker_stops_under_load_and_comes_back_with_everything(tmp_path: Path, number: signal.Signals) -> None:
    """
    A broker with a busy producer, a waiting consumer and a half-sent HTTP request stops with exit code 0.  After its
    restart, it still has every acknowledged record.
    """
    acknowledged: set[tuple[int, int]] = set()

    def delivered(error: KafkaError | None, record: Message) -> None:
        if error is None:
            acknowledged.add((record.partition() or 0, record.offset() or 0))

    with running("dev", "--data", str(tmp_path), *FREE_PORTS) as (process, ready):
        settings = {"bootstrap.servers": ready["kafka"], "linger.ms": 0, "message.timeout.ms": 1000, "log_level": 0}
        producers = [Producer(settings | {"max.in.flight": 50}) for _ in range(3)]
        consumer = Consumer({"bootstrap.servers": ready["kafka"], "group.id": "waits", "log_level": 0})
        consumer.subscribe(["other"])
        is_over = threading.Event()

        def load(producer: Producer) -> None:
            while not is_over.is_set():
                if len(producer) < 20_000:
                    producer.produce("load", b"x" * 200, on_delivery=delivered)
                producer.poll(0 if len(producer) < 20_000 else 0.005)

        threads = [threading.Thread(target=load, args=(producer,)) for producer in producers]
        for thread in threads:
            thread.start()
        until = time.monotonic() + BUSY_S_MAX
        while len(acknowledged) < BUSY_RECORDS:
            assert time.monotonic() < until, f"only {len(acknowledged)} records were acknowledged"
            time.sleep(0.01)
        host, _, port = ready["http"].rpartition(":")
        with socket.create_connection((host, int(port))) as half_sent:
            half_sent.sendall(b"GET /metrics HTTP/1.1\r\n")
            stop(process, number)
        is_over.set()
        for thread, producer in zip(threads, producers, strict=True):
            thread.join()
            producer.flush(5)
        consumer.close()
        events = logged(process)
    with running("dev", "--data", str(tmp_path), *FREE_PORTS) as (_, ready):
        reader = Consumer({"bootstrap.servers": ready["kafka"], "group.id": "reads"})
        partitions = reader.list_topics("load", timeout=10).topics["load"].partitions
        ends = {part: reader.get_watermark_offsets(TopicPartition("load", part), timeout=10)[1] for part in partitions}
        reader.close()

    assert 0 == process.returncode
    assert ["stopping", "stopped"] == [event["event"] for event in events][-2:]
    assert acknowledged and all(offset < ends[partition] for partition, offset in acknowledged)


def test_a_directory_can_be_used_by_one_broker_only(tmp_path: Path) -> None:
    """A second broker on the same directory fails and names the process that uses it."""
    with running("dev", "--data", str(tmp_path), *FREE_PORTS) as (process, _):
        code, out, message = refused("dev", "--data", str(tmp_path), *FREE_PORTS)

    assert (1, "") == (code, out)
    assert (
        f"--data={tmp_path} is in use by process {process.pid}: stop that process, or set another directory" == message
    )


@pytest.mark.parametrize("key", ["listeners", "tidemill.http.listener", "tidemill.peer.listener"])
def test_a_port_can_be_used_by_one_broker_only(tmp_path: Path, key: str) -> None:
    """
    A second broker on the same port fails, names the key and the address once, and has created nothing.  The exit code
    lets a supervisor try again, because the port may become free.
    """
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        value = f"PLAINTEXT://{address}" if key == "listeners" else address
        settings = peer_settings(tmp_path / "data", 1, free_port(), free_port(), join=None)
        code, out, message = refused("broker", *settings, "--set", f"{key}={value}")

    assert (1, "") == (code, out)
    assert f"{key}={value} cannot be bound (Address already in use): free the address, or set another one" == message
    assert not (tmp_path / "data").exists()


def test_an_address_of_another_machine_is_refused_before_anything_is_created(tmp_path: Path) -> None:
    """
    A broker that is configured to listen on an address of another machine fails, and leaves no directory behind.
    """
    away = "listeners=PLAINTEXT://192.0.2.1:9092"
    settings = peer_settings(tmp_path / "data", 1, free_port(), free_port(), join=None)

    code, out, message = refused("broker", *settings, "--set", away, "--set", "tidemill.insecure.bind=true")

    assert (1, "") == (code, out)
    assert message.startswith(f"{away} cannot be bound (Cannot assign requested address)")
    assert not (tmp_path / "data").exists()


def test_a_directory_of_another_broker_is_a_wrong_setting(tmp_path: Path) -> None:
    """
    A broker on the directory of another broker exits with the code for wrong settings, so that a supervisor does not
    restart it: only a different setting helps.
    """
    with running("broker", *peer_settings(tmp_path, 1, free_port(), free_port(), join=None)):
        pass

    code, out, message = refused("broker", *peer_settings(tmp_path, 2, free_port(), free_port(), join=None))

    assert (2, "") == (code, out)
    assert f"log.dirs={tmp_path}: broker.id=2, but log.dirs belongs to broker 1" in message


@pytest.mark.parametrize(("version", "fix"), [(1, "start the older version"), (3, "start the newer version")])
def test_a_directory_of_another_version_is_left_alone(tmp_path: Path, version: int, fix: str) -> None:
    """
    If the directory has another format, the message names both formats and the fix, and nothing in the directory
    changes.
    """
    with running("dev", "--data", str(tmp_path), *FREE_PORTS) as (process, _):
        stop(process, signal.SIGTERM)
    identity = tmp_path / "identity.json"
    identity.write_text(identity.read_text().replace('"format": 2', f'"format": {version}'))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "LOCK"}

    code, out, message = refused("dev", "--data", str(tmp_path), *FREE_PORTS)

    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "LOCK"}
    assert (1, "", before) == (code, out, after)
    assert f"format {version}" in message and "reads format 2" in message and fix in message


def test_a_data_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """A broker whose data path is a file fails and names the key and the path."""
    (tmp_path / "file").write_text("")

    code, out, message = refused("dev", "--data", str(tmp_path / "file"), *FREE_PORTS)

    assert (1, "") == (code, out)
    assert f"--data={tmp_path / 'file'} cannot be used" in message


@pytest.mark.parametrize("damage", ["flipped", "shorter", "missing"])
def test_damaged_metadata_prevents_the_start(tmp_path: Path, damage: str) -> None:
    """
    A broker with damaged metadata does not start, because it could not serve anything.  The message names the file.
    """
    with running("dev", "--data", str(tmp_path), *FREE_PORTS) as (process, _):
        stop(process, signal.SIGTERM)
    (segment,) = (tmp_path / "topics").rglob("*.log")
    content = bytearray(segment.read_bytes())
    match damage:
        case "flipped":
            content[200] ^= 0xFF
            segment.write_bytes(content)
        case "shorter":
            segment.write_bytes(content[:-1])
        case "missing":
            segment.unlink()

    code, out, message = refused("dev", "--data", str(tmp_path), *FREE_PORTS)

    assert (1, "") == (code, out)
    assert segment.name in message


def test_a_failed_start_leaves_no_thread_running(tmp_path: Path) -> None:
    """A start that fails after the journal's thread has begun a write also ends that thread, which must not report to a
    closed loop.
    """
    settings = dev_settings(data=str(tmp_path), kafka="127.0.0.1:0", http="127.0.0.1:0", environment={})
    with running("dev", "--data", str(tmp_path), *FREE_PORTS) as (process, _):
        stop(process, signal.SIGTERM)
    (segment,) = (tmp_path / "topics").rglob("*.log")
    segment.unlink()
    before = threading.active_count()

    with pytest.raises(StartProblem, match=segment.name):
        start.run(settings, ready=lambda _: None, as_json=True)

    assert before == threading.active_count()


def test_each_listener_has_its_name_and_port(tmp_path: Path) -> None:
    """If a configuration file has two listeners, each has its own name and port, and a client gets the address of the
    listener that it uses.
    """
    config = tmp_path / "broker.yaml"
    config.write_text(
        f"log.dirs: {tmp_path / 'data'}\n"
        "broker.id: 7\n"
        "listeners: [PLAINTEXT://127.0.0.1:0, INSIDE://localhost:0]\n"
        "listener.security.protocol.map: PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT\n"
        "tidemill.http.listener: 127.0.0.1:0\n"
        "num.network.threads: 3\n"
    )
    with running("broker", "--config", str(config), "--set", "num.partitions=3") as (process, ready):
        brokers = AdminClient({"bootstrap.servers": ready["kafka"]}).list_topics(timeout=10).brokers
        stop(process, signal.SIGTERM)
        assert process.stderr is not None
        events = [json.loads(line) for line in process.stderr]

    assert ready["kafka"] == f"{brokers[7].host}:{brokers[7].port}"
    assert ["num.network.threads"] == [e["key"] for e in events if e["event"] == "setting has no effect"]
    (listeners,) = [event["listeners"] for event in events if event["event"] == "ready"]
    assert ["PLAINTEXT://127.0.0.1", "INSIDE://localhost"] == [
        address.rpartition(":")[0] for address in listeners.split(",")
    ]


def test_a_broker_waiting_for_a_cluster_can_be_stopped(tmp_path: Path) -> None:
    """A broker stops cleanly while no broker listens at the addresses in tidemill.join."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        join = f"tidemill.join=127.0.0.1:{nobody.getsockname()[1]}"
        keys = (
            "listeners=PLAINTEXT://127.0.0.1:0",
            "tidemill.peer.listener=127.0.0.1:0",
            "tidemill.http.listener=127.0.0.1:0",
        )
        settings = [join, "broker.id=3", f"log.dirs={tmp_path}", *keys]
        with started("broker", *(word for setting in settings for word in ("--set", setting))) as process:
            assert process.stderr is not None
            first = json.loads(process.stderr.readline())
            stop(process, signal.SIGTERM)
            events = [first, *logged(process)]

    assert ("waiting to join", 3, "stopped") == (
        events[0].get("event"),
        events[0].get("broker"),
        events[-1]["event"],
    ), events
    assert 0 == process.returncode
