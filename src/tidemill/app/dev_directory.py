"""The directory of `tidemill dev --brokers N`: several brokers, each with a data directory, ports and settings.

    DIR/cluster.key      the cluster key of all brokers
    DIR/broker-1/        data of broker 1
    DIR/broker-1.yaml    settings of broker 1: `tidemill broker --config DIR/broker-1.yaml` starts it again

The settings are next to the data directory, not in it, so that if a broker's data is lost, the same command can start
it as a new voter.  `cluster.key` and the settings contain the key and have mode 0600.  Broker 1 bootstraps the cluster.
After that, its settings contain `tidemill.join` as well, so that it does not bootstrap another cluster if its data is
lost.

With three or more brokers, new topics have three replicas and tolerate the loss of one broker, and groups do not wait
for more members at their start, unless the environment or the settings files say otherwise.
"""

import contextlib
import itertools
import json
import os
import re
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tidemill.app.held_ports import HeldPorts
from tidemill.app.listeners import CLUSTER_KEY, HTTP_LISTENER, JOIN, PEER_LISTENER, Address, SettingRefused, address_of
from tidemill.app.settings import DEV_DEFAULTS, Settings, check_dev_broker, settings_from
from tidemill.app.start_problem import StartProblem, unbindable
from tidemill.metadata.insync import MIN_INSYNC
from tidemill.model.broker_id import BrokerId
from tidemill.runtime.os_disk import OsDisk
from tidemill.storage import paths
from tidemill.storage.disk_path import LOCK_NAME

LOOPBACK: Final = "127.0.0.1"
REPLICATION_FACTOR: Final = "default.replication.factor"
REPLICAS_MAX: Final = 3  # with a majority of two, three replicas tolerate the loss of one broker
KEY_NAME: Final = "cluster.key"
_DATA: Final = re.compile(r"broker-([1-9][0-9]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DevBroker:
    broker_id: BrokerId
    data: str
    config: str  # the path of the broker's settings file
    kafka: Address
    http: Address
    peer: Address
    join: tuple[Address, ...]

    def command(self, *, as_json: bool) -> list[str]:
        """Return the command that starts this broker."""
        command = [sys.executable, "-m", "tidemill", "broker", "--config", self.config]
        return [*command, "--json"] if as_json else command

    @property
    def http_local(self) -> str:
        """The address at which this machine reaches the broker's HTTP listener."""
        if not self.http.is_wildcard:
            return str(self.http)
        return str(Address("::1" if ":" in self.http.host else LOOPBACK, self.http.port))


class DevDirectory:
    """The directory of several brokers.

    It is locked until `close`, so that two commands cannot overwrite each other's settings.
    """

    def __init__(self, directory: str) -> None:
        self._ports = HeldPorts()
        self._created = _missing(Path(directory))
        try:
            self._disk = OsDisk(directory)
            self._disk.lock()
        except BlockingIOError as error:
            raise StartProblem(
                f"--data={directory} is {error.strerror}: stop that process, or set another directory"
            ) from error
        except OSError as error:
            why = f"cannot be used ({error.strerror or error}): set a directory that this user may write to"
            raise StartProblem(f"--data={directory} {why}") from error
        self._root = Path(self._disk.root)

    def close(self) -> None:
        """Release the directory.  If this command created the directory but did not use it, remove the directory."""
        self._ports.close()
        if self._created and [path.name for path in self._root.iterdir()] == [LOCK_NAME]:
            (self._root / LOCK_NAME).unlink()
            for path in self._created:
                with contextlib.suppress(OSError):  # not empty: another process is using the directory now
                    path.rmdir()
        self._disk.unlock()

    def brokers(self, count: int, *, kafka: str, http: str, environment: Mapping[str, str]) -> list[DevBroker]:
        """Return `count` brokers, existing and new, after writing their settings and reserving their ports."""
        first_kafka, first_http = address_of("--kafka", kafka), address_of("--http", http)
        self._check(count, first_kafka, first_http)
        has_cluster = any((self._root / f"broker-{number}" / paths.IDENTITY).exists() for number in self._existing())
        stored = [self._stored(number) for number in range(1, count + 1)]
        defaults = _defaults(count) | _chosen([it.static for it in stored if it is not None])
        found = [self._broker(number, first_kafka, first_http, it) for number, it in enumerate(stored, 1)]
        joining = [
            replace(broker, join=tuple(other.peer for other in found if other is not broker))
            if has_cluster or broker is not found[0]
            else broker
            for broker in found
        ]
        key = self._key()
        statics = [check_dev_broker(_settings(broker, key), environment, defaults) for broker in joining]
        _write(self._root / KEY_NAME, key + "\n")
        for broker, static in zip(joining, statics, strict=True):
            _write(Path(broker.config), _yaml(static))
        return joining

    def mark_bootstrapped(self, brokers: Sequence[DevBroker]) -> None:
        """Record that the cluster exists: from now on, broker 1 joins it at each start, like the other brokers."""
        first, *others = brokers
        if others and not first.join:
            static = settings_from(file=first.config, environment={}, sets=()).static
            _write(Path(first.config), _yaml({**static, JOIN: _join(other.peer for other in others)}))

    def _check(self, count: int, kafka: Address, http: Address) -> None:
        existing = self._existing()
        if (self._root / paths.IDENTITY).exists():
            why = f"{self._root} has the data of a single broker; leave --brokers out, or set another --data"
            raise SettingRefused("--brokers", str(count), why)
        if existing and existing[-1] > count:
            why = f"{self._root} has {existing[-1]} brokers; use --brokers {existing[-1]}, or set another --data"
            raise SettingRefused("--brokers", str(count), why)
        for option, address in (("--kafka", kafka), ("--http", http)):
            if address.port and address.port + count - 1 > 65_535:
                why = f"{count} brokers need consecutive ports from {address.port} on, beyond the last port, 65535"
                raise SettingRefused(option, str(address), why)
        if not (http.is_loopback or http.is_wildcard):
            why = "the readiness of the brokers is checked there from this machine; use 127.0.0.1"
            raise SettingRefused("--http", str(http), why)
        for number in existing:
            _check_not_running(str(self._root / f"broker-{number}"))

    def _existing(self) -> list[int]:
        named = [_DATA.fullmatch(path.name) for path in self._root.iterdir() if path.is_dir()]
        return sorted(int(match[1]) for match in named if match)

    def _config(self, number: int) -> Path:
        return self._root / f"broker-{number}.yaml"

    def _stored(self, number: int) -> Settings | None:
        """Return the settings in the broker's file, which an earlier command wrote and a user may have edited."""
        config = self._config(number)
        return settings_from(file=str(config), environment={}, sets=()) if config.exists() else None

    def _broker(self, number: int, first_kafka: Address, first_http: Address, stored: Settings | None) -> DevBroker:
        ports = (0, 0, 0)
        if stored is not None:
            ports = (stored.listeners[0].bind.port, stored.http.port, stored.peer.bind.port)
        return DevBroker(
            broker_id=BrokerId(number),
            data=str(self._root / f"broker-{number}"),
            config=str(self._config(number)),
            kafka=self._take("--kafka", _nth_address(first_kafka, number), ports[0]),
            http=self._take("--http", _nth_address(first_http, number), ports[1]),
            peer=self._take(PEER_LISTENER, Address(LOOPBACK, 0), ports[2]),
            join=(),
        )

    def _take(self, option: str, address: Address, stored_port: int) -> Address:
        try:
            return self._ports.take_stored(address, stored_port)
        except OSError as error:
            raise unbindable(option, address, error) from error

    def _key(self) -> str:
        path = self._root / KEY_NAME
        return path.read_text().strip() if path.exists() else secrets.token_urlsafe(32)


def _missing(directory: Path) -> list[Path]:
    """Return the directory and its parents that do not exist, the deepest first."""
    return list(itertools.takewhile(lambda path: not path.exists(), (at := directory.absolute(), *at.parents)))


def _defaults(count: int) -> dict[str, str]:
    """Return the settings of each broker in a cluster of `count` brokers that a user may change."""
    settings = {**DEV_DEFAULTS, REPLICATION_FACTOR: str(min(REPLICAS_MAX, count))}
    return settings | ({MIN_INSYNC: "2"} if count >= REPLICAS_MAX else {})


def _chosen(stored: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the settings that a user has changed in the settings files of brokers, which `stored` holds.

    These differ from the defaults for a cluster of `len(stored)` brokers.  They apply to all brokers, because any
    broker may become the controller or coordinate a group.
    """
    written = _defaults(len(stored))
    chosen: dict[str, str] = {}
    for static in stored:
        for key in (*DEV_DEFAULTS, REPLICATION_FACTOR, MIN_INSYNC):
            if key in static and static[key] != written.get(key):
                chosen.setdefault(key, static[key])
    return chosen


def _nth_address(first: Address, number: int) -> Address:
    return Address(first.host, first.port + number - 1) if first.port else first


def _check_not_running(directory: str) -> None:
    disk = OsDisk(directory)
    try:
        disk.lock()
    except BlockingIOError as error:
        raise StartProblem(f"{directory} is {error.strerror}: stop that process first") from error
    disk.unlock()


def _settings(broker: DevBroker, key: str) -> dict[str, str]:
    own = {
        "broker.id": str(broker.broker_id),
        "log.dirs": broker.data,
        "listeners": f"PLAINTEXT://{broker.kafka}",
        HTTP_LISTENER: str(broker.http),
        PEER_LISTENER: str(broker.peer),
        CLUSTER_KEY: key,
    }
    return own | ({JOIN: _join(broker.join)} if broker.join else {})


def _join(addresses: Iterable[Address]) -> str:
    return ",".join(map(str, addresses))


def _yaml(static: Mapping[str, str]) -> str:
    """Return YAML text; the values are JSON strings, which are valid YAML."""
    heading = "# Written by `tidemill dev --brokers` at each start.\n"
    return heading + "".join(f"{key}: {json.dumps(text)}\n" for key, text in static.items())


def _write(path: Path, text: str) -> None:
    """Replace the file atomically with a file that only this user can read."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.rename(path)
