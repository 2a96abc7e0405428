"""The settings of a broker, from three sources: `--set` overrides the environment, which overrides a YAML file.

Keys are flat and have Kafka's names; Tidemill's own keys begin with `tidemill.`.  `TIDEMILL_SET_LOG_DIRS` sets
`log.dirs` and `TIDEMILL_SET_JOIN` sets `tidemill.join`; other `TIDEMILL_*` variables are for commands.  A key overrides
its synonyms in weaker sources: `--set log.retention.hours=1` overrides `log.retention.ms` in the file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from tidemill.app.connection_limits import OVERRIDES, connections_max_by_host
from tidemill.app.http_token import HTTP_TOKEN_FILE, token_of
from tidemill.app.listeners import (
    CLUSTER_KEY,
    HTTP_ADVERTISED,
    HTTP_LISTENER,
    INSECURE_BIND,
    JOIN,
    PEER_ADVERTISED,
    PEER_LISTENER,
    Address,
    Listener,
    SettingRefused,
    address_of,
    check_bind,
    join_of,
    listeners_of,
    peer_of,
)
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_key import KeySupport
from tidemill.model.config_keys import BROKER_KEYS, BROKER_SYNONYMS
from tidemill.model.config_resolution import BrokerLayers, broker_flag, broker_value, static_problems

T = TypeVar("T")

ENVIRONMENT_PREFIX: Final = "TIDEMILL_SET_"
# The cluster key of brokers for which no key is configured.  It need not be secret, because these brokers accept
# connections from other brokers only on loopback addresses.
LOOPBACK_KEY: Final = b"tidemill: no key was set, and only this machine is asked"
FILE_BYTES_MAX: Final = 1 << 20  # a larger file must have been named by mistake
# Settings of all brokers of `tidemill dev`, as in the settings file that Kafka comes with: otherwise the first member
# of a group waits for 3 s, in case there are others.
DEV_DEFAULTS: Final = MappingProxyType({"group.initial.rebalance.delay.ms": "0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    static: Mapping[str, str]  # every key that was set, with its validated value as text; see `BrokerLayers.static`
    data_directory: str
    broker_id: BrokerId | None  # None: the id stored in the data directory, or 1 in a new one
    listeners: tuple[Listener, ...]
    peer: Listener  # the listener for other brokers
    join: tuple[str, ...]  # HOST:PORT of brokers that can admit this one; empty: a new directory bootstraps a cluster
    cluster_key: bytes = field(repr=False)
    http: Address
    http_advertised: Address | None  # None: the address of the listener
    http_token: bytes | None = field(repr=False)  # of clients of the API elsewhere; None: these are not served
    ineffective_keys: tuple[str, ...]  # keys that were set but have no effect; logged once at the start


def settings_from(*, file: str | None, environment: Mapping[str, str], sets: Sequence[str]) -> Settings:
    """Read the settings of `tidemill broker`.  Raises SettingRefused, which names every illegal setting."""
    in_file = _from_file(file) if file else _File()
    stronger = (_from_environment(environment), _from_sets(sets))
    lines = {name: line for name, line in in_file.lines.items() if not any(name in source for source in stronger)}
    return settings_of(_merged(in_file.settings, *stronger), lines, in_file.problems)


def dev_settings(*, data: str, kafka: str, http: str, environment: Mapping[str, str]) -> Settings:
    """Return the settings of `tidemill dev`: three options, all other keys from the environment, and `DEV_DEFAULTS`.

    By default the peer listener takes any free port, so that several such brokers can run on one machine.  A restarted
    broker takes the same port again.
    """
    options = {"log.dirs": data, "listeners": f"PLAINTEXT://{kafka}", HTTP_LISTENER: http}
    defaults = {**DEV_DEFAULTS, PEER_LISTENER: "127.0.0.1:0"}
    return settings_of(_merged(defaults, _from_environment(environment), options))


def check_dev_broker(
    own: Mapping[str, str], environment: Mapping[str, str], defaults: Mapping[str, str]
) -> Mapping[str, str]:
    """Return all settings of a broker that `tidemill dev --brokers` starts: `own`, those from the environment, and
    `defaults`, in this order of precedence.

    Raises SettingRefused if the environment sets a key that must have a different value on each broker.
    """
    added = _from_environment(environment)
    for key in (*own, "node.id", JOIN, PEER_ADVERTISED, "advertised.listeners"):
        if key in added:
            why = "several brokers would share it, but each needs its own; remove it from the environment"
            raise SettingRefused(key, added[key], why)
    return settings_of(_merged(defaults, added, own)).static


def settings_of(
    static: Mapping[str, str], lines: Mapping[str, str] = MappingProxyType({}), problems: Sequence[str] = ()
) -> Settings:
    """
    Check each key on its own and then the combination of keys, and return the settings.

    `lines` maps each key that a file sets to FILE:LINE, and `problems` lists the problems with the file itself.  Raises
    SettingRefused, which names every illegal setting or, if there is none, every setting that conflicts with others.
    """
    illegal = [_at(lines, name, error.message) for name, error in static_problems(static)]
    _refuse([*problems, *illegal])
    layers = BrokerLayers(static=MappingProxyType(dict(static)))
    insecure_bind = broker_flag(layers, INSECURE_BIND)
    key = broker_value(layers, CLUSTER_KEY)
    assert key is None or isinstance(key, str)
    advertised = broker_value(layers, PEER_ADVERTISED)
    assert advertised is None or isinstance(advertised, str)
    broker_id = broker_value(layers, "broker.id")
    assert isinstance(broker_id, int)
    refused: list[str] = []

    def checked(value_of: Callable[[], T]) -> T | None:
        try:
            return value_of()
        except SettingRefused as problem:
            refused.append(_at(lines, problem.key, str(problem)))
            return None

    http = checked(lambda: _http(_text(layers, HTTP_LISTENER), insecure_bind=insecure_bind))
    http_advertised = checked(lambda: _http_advertised(broker_value(layers, HTTP_ADVERTISED)))
    token_file = broker_value(layers, HTTP_TOKEN_FILE)
    http_token = None if token_file is None else checked(lambda: token_of(str(token_file)))
    peer = checked(
        lambda: peer_of(_text(layers, PEER_LISTENER), advertised, has_key=key is not None, insecure_bind=insecure_bind)
    )
    listeners = checked(
        lambda: listeners_of(
            _items(layers, "listeners"),
            _items(layers, "advertised.listeners"),
            _text(layers, "listener.security.protocol.map"),
            insecure_bind=insecure_bind,
        )
    )
    join = None if peer is None else checked(lambda: join_of(_items(layers, JOIN), peer))
    checked(lambda: connections_max_by_host(_text(layers, OVERRIDES)))
    _refuse(refused)
    assert http is not None and peer is not None and listeners is not None and join is not None, "nothing was refused"
    return Settings(
        static=layers.static,
        data_directory=_items(layers, "log.dirs")[0],
        broker_id=BrokerId(broker_id) if broker_id >= 0 else None,
        listeners=listeners,
        peer=peer,
        join=join,
        cluster_key=LOOPBACK_KEY if key is None else key.encode(),
        http=http,
        http_advertised=http_advertised,
        http_token=http_token,
        ineffective_keys=tuple(
            sorted(name for name in static if BROKER_KEYS[name].support is KeySupport.WITHOUT_EFFECT)
        ),
    )


def _refuse(problems: Sequence[str]) -> None:
    """Raise SettingRefused if there are problems.  Each problem already names the key, the value and the fix."""
    if problems:
        refused = SettingRefused("", "", "")
        listed = "".join(f"\n  {problem}" for problem in problems)
        refused.args = (problems[0] if len(problems) == 1 else f"{len(problems)} settings are refused:{listed}",)
        raise refused


def _at(lines: Mapping[str, str], name: str, problem: str) -> str:
    """Return the problem with a key, prefixed with FILE:LINE if a file sets the key."""
    return f"{lines[name]}: {problem}" if name in lines else problem


def _http(text: str, *, insecure_bind: bool) -> Address:
    address = address_of(HTTP_LISTENER, text)
    check_bind(HTTP_LISTENER, address, insecure_bind=insecure_bind)
    return address


def _http_advertised(value: object) -> Address | None:
    if value is None:
        return None
    address = address_of(HTTP_ADVERTISED, str(value))
    if address.is_wildcard or not address.port:
        raise SettingRefused(HTTP_ADVERTISED, str(value), "write the host and port that clients connect to")
    return address


def _text(layers: BrokerLayers, name: str) -> str:
    value = broker_value(layers, name)
    assert isinstance(value, str), name
    return value


def _items(layers: BrokerLayers, name: str) -> tuple[str, ...]:
    value = broker_value(layers, name)
    assert value is None or isinstance(value, tuple), name
    return value or ()


def _merged(*weaker_to_stronger: Mapping[str, str]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for source in weaker_to_stronger:
        hidden = {synonym for name in source for synonym in BROKER_SYNONYMS.get(name, ())}
        merged = {name: text for name, text in merged.items() if name not in hidden} | dict(source)
    return merged


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for variable, text in sorted(environment.items()):
        if variable.startswith(ENVIRONMENT_PREFIX):
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
            ours = f"tidemill.{name}"
            known = [key for key in (name, ours) if key in BROKER_KEYS]
            if not known:
                raise SettingRefused(variable, text, f"there is no key {name} or {ours}; unset the variable")
            found[known[0]] = text
    return found


def _from_sets(sets: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in sets:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals):
            raise SettingRefused("--set", text, "write KEY=VALUE, for example --set num.partitions=12")
        found[name.strip()] = value
    return found


class _File(NamedTuple):
    """The keys of a settings file that could be read, and the problems with the others."""

    settings: Mapping[str, str] = MappingProxyType({})
    lines: Mapping[str, str] = MappingProxyType({})  # FILE:LINE of each key
    problems: Sequence[str] = ()  # keys that are nested or occur twice


def _from_file(path: str) -> _File:
    import yaml  # imported late (decision 12): `tidemill dev` does not need it

    try:
        with Path(path).open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
        if len(text) > FILE_BYTES_MAX:
            raise SettingRefused(
                "--config", path, f"the file has more than {FILE_BYTES_MAX} bytes; name a configuration file"
            )
        # Compose nodes instead of loading values: nodes keep scalars as written and show duplicate keys.
        root = yaml.compose(text.decode(), Loader=yaml.SafeLoader)
    except OSError as error:
        raise SettingRefused("--config", path, f"it cannot be read ({error.strerror}); name a YAML file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingRefused("--config", path, f"it is not YAML: {' '.join(str(error).split())}") from error
    if root is None:
        return _File()
    if not isinstance(root, yaml.MappingNode):
        raise SettingRefused("--config", path, "write lines of KEY: VALUE, for example num.partitions: 12")
    found: dict[str, str] = {}
    lines: dict[str, str] = {}
    problems: list[str] = []
    for key_node, value_node in root.value:
        line = f"{path}:{key_node.start_mark.line + 1}"
        name = str(key_node.value)
        match value_node:
            case yaml.ScalarNode(value=str(value)):
                pass
            case yaml.SequenceNode(value=items) if all(isinstance(item, yaml.ScalarNode) for item in items):
                value = ",".join(str(item.value) for item in items)
            case _:
                flat = SettingRefused(name, "{…}", f"keys are flat; write `{name}.…: VALUE` on one line")
                problems.append(f"{line}: {flat}")
                continue
        if name in found:
            problems.append(f"{line}: {SettingRefused(name, value, 'the key is in the file twice; remove one')}")
            continue
        found[name] = value
        lines[name] = line
    return _File(found, lines, problems)
