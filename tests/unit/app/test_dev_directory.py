"""The settings that `tidemill dev --brokers` writes for its brokers, and what the command refuses."""

import contextlib
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from tidemill.app.dev_directory import DevBroker, DevDirectory
from tidemill.app.listeners import SettingRefused
from tidemill.app.settings import Settings, settings_from
from tidemill.app.start_problem import StartProblem


def prepared(directory: Path, count: int = 3, kafka: str = "127.0.0.1:0", **environment: str) -> list[DevBroker]:
    """Write the files of the brokers as `tidemill dev` does, release the directory, and return the brokers."""
    locked = DevDirectory(str(directory))
    try:
        return locked.brokers(count, kafka=kafka, http="127.0.0.1:0", environment=environment)
    finally:
        locked.close()


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive free ports, below those that the system gives to other programs."""
    for first in range(10_000 + os.getpid() % 20_000, 32_000, count):
        with contextlib.ExitStack() as sockets, contextlib.suppress(OSError):
            for port in range(first, first + count):
                sockets.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError(f"no {count} consecutive ports are free")


def stored(broker: DevBroker) -> Settings:
    return settings_from(file=broker.config, environment={}, sets=[])


def test_the_settings_of_each_broker_are_complete(tmp_path: Path) -> None:
    """The settings of each broker are complete: broker 1 bootstraps the cluster and the others join it, no port is 0,
    and all have the same key.
    """
    brokers = prepared(tmp_path, TIDEMILL_SET_NUM_PARTITIONS="3")
    settings = [stored(broker) for broker in brokers]

    assert [1, 2, 3] == [it.broker_id for it in settings]
    assert [broker.data for broker in brokers] == [it.data_directory for it in settings]
    assert 9 == len({p for it in settings for p in (it.http.port, it.peer.bind.port, it.listeners[0].bind.port)} - {0})
    assert 1 == len({it.cluster_key for it in settings})
    assert {"3"} == {it.static["num.partitions"] for it in settings}
    peers = [str(it.peer.bind) for it in settings]
    assert [(), (peers[0], peers[2]), (peers[0], peers[1])] == [it.join for it in settings]


def replication(brokers: list[DevBroker]) -> list[Mapping[str, str]]:
    keys = ("default.replication.factor", "min.insync.replicas")
    return [{key: text for key, text in stored(broker).static.items() if key in keys} for broker in brokers]


@pytest.mark.parametrize(
    ("count", "written"),
    [
        (2, {"default.replication.factor": "2"}),
        (3, {"default.replication.factor": "3", "min.insync.replicas": "2"}),
        (4, {"default.replication.factor": "3", "min.insync.replicas": "2"}),
    ],
)
def test_new_topics_are_replicated(tmp_path: Path, count: int, written: dict[str, str]) -> None:
    """With three brokers or more, a new topic has three replicas, and writes require two of them."""
    assert [written] * count == replication(prepared(tmp_path, count))


def test_the_environment_overrides_the_replication_settings(tmp_path: Path) -> None:
    """
    A replication setting in the environment takes precedence; the other one keeps the value that `tidemill dev` writes.
    """
    brokers = prepared(tmp_path, TIDEMILL_SET_DEFAULT_REPLICATION_FACTOR="1")

    assert [{"default.replication.factor": "1", "min.insync.replicas": "2"}] * 3 == replication(brokers)


def test_an_existing_directory_gets_replication_settings(tmp_path: Path) -> None:
    """If an older version wrote the settings files without the replication settings, the next start adds them."""
    for broker in prepared(tmp_path):
        lines = Path(broker.config).read_text().splitlines(keepends=True)
        Path(broker.config).write_text("".join(line for line in lines if "replica" not in line.partition(":")[0]))

    assert [{"default.replication.factor": "3", "min.insync.replicas": "2"}] * 3 == replication(prepared(tmp_path))


def test_a_value_in_one_settings_file_is_kept_for_all_brokers(tmp_path: Path) -> None:
    """A value that a user has set survives later starts.  A value that an earlier start chose for a smaller number of
    brokers does not.
    """
    second = prepared(tmp_path, count=2)[1]
    with Path(second.config).open("a") as file:
        file.write("min.insync.replicas: 1\n")

    grown = replication(prepared(tmp_path, count=3))

    expected = {"default.replication.factor": "3", "min.insync.replicas": "1"}
    assert [expected] * 3 == grown == replication(prepared(tmp_path, count=3))


def test_groups_of_a_dev_cluster_do_not_wait_for_more_members(tmp_path: Path) -> None:
    """By default the first members of a group do not wait for others; what a user has written for one broker is kept
    for all.
    """
    key = "group.initial.rebalance.delay.ms"
    first = prepared(tmp_path)
    before = [stored(broker).static[key] for broker in first]
    config = Path(first[1].config)
    config.write_text(config.read_text().replace(f'{key}: "0"', f'{key}: "700"'))

    after = [stored(broker).static[key] for broker in prepared(tmp_path)]

    assert (["0"] * 3, ["700"] * 3) == (before, after)


def test_ports_are_consecutive(tmp_path: Path) -> None:
    """The brokers get consecutive ports, starting with the given one."""
    first = free_ports(3)

    brokers = prepared(tmp_path, kafka=f"127.0.0.1:{first}")

    assert [first, first + 1, first + 2] == [broker.kafka.port for broker in brokers]


def test_a_broker_that_lost_its_data_never_bootstraps_another_cluster(tmp_path: Path) -> None:
    """Once the cluster exists, the settings of broker 1 make it join that cluster.  They are written immediately, and
    the next start of `tidemill dev` keeps them, even if broker 1 has lost its data by then.
    """
    locked = DevDirectory(str(tmp_path))
    brokers = locked.brokers(2, kafka="127.0.0.1:0", http="127.0.0.1:0", environment={})
    locked.mark_bootstrapped(brokers)
    locked.close()
    at_once = stored(brokers[0]).join
    for broker in brokers:
        Path(broker.data).mkdir()
    Path(brokers[1].data, "identity.json").touch()
    shutil.rmtree(brokers[0].data)

    again = prepared(tmp_path, count=2)

    assert (str(brokers[1].peer),) == at_once == stored(again[0]).join


def test_environment_settings_that_must_differ_are_refused(tmp_path: Path) -> None:
    """Settings that must differ between brokers are refused if they come from the environment, which would give all
    brokers the same value.
    """
    with pytest.raises(SettingRefused, match=r"log\.dirs=/x is refused: .*environment"):
        prepared(tmp_path, TIDEMILL_SET_LOG_DIRS="/x")


@pytest.mark.parametrize(
    ("made", "why"),
    [("identity.json", "single broker"), ("broker-4/", "has 4 brokers; use --brokers 4")],
)
def test_a_directory_of_other_brokers_is_refused(tmp_path: Path, made: str, why: str) -> None:
    """
    A directory that belongs to other brokers is refused; the message says what the directory contains and which option
    to use.
    """
    path = tmp_path / made
    path.mkdir() if made.endswith("/") else path.touch()

    with pytest.raises(SettingRefused, match=why):
        prepared(tmp_path)


def test_a_directory_that_was_created_in_vain_is_removed(tmp_path: Path) -> None:
    """
    A start that fails because a port is taken, or because of a setting, leaves behind nothing that did not exist
    before.
    """
    new, empty = tmp_path / "parent" / "mills", tmp_path / "empty"
    empty.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StartProblem, match="in use"):
        prepared(new, kafka=f"127.0.0.1:{taken.getsockname()[1]}")
    with pytest.raises(SettingRefused):
        prepared(new, TIDEMILL_SET_NO_SUCH_KEY="1")
    with pytest.raises(SettingRefused):
        prepared(empty, TIDEMILL_SET_NO_SUCH_KEY="1")

    assert [empty] == [*tmp_path.iterdir()]


def test_impossible_addresses_are_refused(tmp_path: Path) -> None:
    """Ports above 65535 are refused, and so are HTTP addresses that `tidemill dev` itself cannot reach."""
    with pytest.raises(SettingRefused, match="beyond the last port, 65535"):
        prepared(tmp_path, kafka="127.0.0.1:65534")
    locked = DevDirectory(str(tmp_path))
    with pytest.raises(SettingRefused, match=r"--http=10\.0\.0\.1:1 is refused"):
        locked.brokers(2, kafka="127.0.0.1:0", http="10.0.0.1:1", environment={})
    locked.close()


def test_settings_of_a_running_broker_are_not_overwritten(tmp_path: Path) -> None:
    """`tidemill dev` does not overwrite the settings of a broker that is running, for example because it was restarted
    separately.
    """
    prepared(tmp_path, count=2)
    running = DevDirectory(str(tmp_path / "broker-2"))

    with pytest.raises(StartProblem, match="broker-2 is in use by process"):
        prepared(tmp_path, count=2)
    running.close()
