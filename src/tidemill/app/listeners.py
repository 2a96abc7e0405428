"""Listeners: the named addresses on which the broker listens, and the addresses that it advertises.

Only PLAINTEXT is implemented for clients.  Brokers prove to each other that they know the cluster key, but do not
encrypt their traffic.  Listening on an address that other machines can reach requires `tidemill.insecure.bind=true`,
because no traffic is encrypted and clients are not authenticated.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidemill.metadata.metadata_records import HTTP_ENDPOINT, PEER_ENDPOINT

INSECURE_BIND: Final = "tidemill.insecure.bind"
PEER_LISTENER: Final = "tidemill.peer.listener"
HTTP_ADVERTISED: Final = "tidemill.http.advertised"
HTTP_LISTENER: Final = "tidemill.http.listener"
PEER_ADVERTISED: Final = "tidemill.peer.advertised"
CLUSTER_KEY: Final = "tidemill.cluster.key"
JOIN: Final = "tidemill.join"
_EXAMPLE_PORTS: Final = {HTTP_LISTENER: 9080, PEER_LISTENER: 9070, PEER_ADVERTISED: 9070, JOIN: 9070}
"""The ports in the examples that error messages give, for keys that do not configure Kafka listeners."""
_NEVER_BOUND: Final = frozenset({"advertised.listeners", PEER_ADVERTISED, JOIN})
"""The keys whose addresses are for connecting, not for listening, so port 0 is not allowed."""
_ENTRY: Final = re.compile(r"([A-Za-z0-9_.-]+)://(.*)")
_WILDCARDS: Final = frozenset({"0.0.0.0", "::"})
_RESERVED_NAMES: Final = {PEER_ENDPOINT: PEER_LISTENER, HTTP_ENDPOINT: HTTP_LISTENER}


class SettingRefused(Exception):
    """The broker cannot start with this setting; the message names the key, the value and the fix."""

    def __init__(self, key: str, value: str, why: str) -> None:
        super().__init__(f"{key}={value} is refused: {why}")
        self.key = key


class Address(NamedTuple):
    host: str  # an IPv6 address has no brackets here
    port: int  # 0: any free port

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False  # Any other host name may later resolve to an address that is not loopback.

    @property
    def is_wildcard(self) -> bool:
        """Whether this address means all addresses of the machine, so that no client can connect to it."""
        return self.host in _WILDCARDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    name: str
    bind: Address
    advertised: Address | None = None  # None: the bound address with its actual port

    def advertised_as(self, bound_port: int) -> Address:
        return self.advertised or Address(self.bind.host, bound_port)


def address_of(key: str, text: str) -> Address:
    """Parse `HOST:PORT`; an empty host means the loopback address.  Raises SettingRefused."""
    host, colon, port = text.strip().rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and int(port) <= 65535):
        example = f"127.0.0.1:{_EXAMPLE_PORTS.get(key, 9092)}"
        port_0 = "" if key in _NEVER_BOUND else "; port 0 selects a free port"
        raise SettingRefused(key, text, f"write HOST:PORT, for example {example}{port_0}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise SettingRefused(key, text, f"write an IPv6 address in brackets: [{host}]:{port}")
    return Address(host or "127.0.0.1", int(port))


def check_bind(
    key: str,
    address: Address,
    *,
    insecure_bind: bool,
    danger: str = "anyone who reaches this address could read and write everything",
) -> None:
    if not (insecure_bind or address.is_loopback):
        raise SettingRefused(
            key,
            str(address),
            f"{danger}; bind to 127.0.0.1, or set {INSECURE_BIND}=true "
            "(in the environment: TIDEMILL_SET_INSECURE_BIND=true)",
        )


def listeners_of(
    listeners: tuple[str, ...], advertised: tuple[str, ...], protocol_map: str, *, insecure_bind: bool
) -> tuple[Listener, ...]:
    """Return the listeners in the given order, each with its advertised address.  Raises SettingRefused."""
    key = "listeners"
    bound = _entries(key, listeners)
    if not bound:
        raise SettingRefused(key, "", "set at least one, for example PLAINTEXT://127.0.0.1:9092")
    protocols = _protocols(protocol_map)
    for name in bound:
        if name in _RESERVED_NAMES:
            why = f"the name {name} is reserved for {_RESERVED_NAMES[name]}; give this listener another name"
            raise SettingRefused(key, ",".join(listeners), why)
    advertised_by_name = _entries("advertised.listeners", advertised)
    for name, address in advertised_by_name.items():
        if name not in bound:
            raise SettingRefused(
                "advertised.listeners", f"{name}://{address}", f"listeners does not contain {name}; add it there"
            )
        if address.port == 0 or address.is_wildcard:
            raise SettingRefused(
                "advertised.listeners", f"{name}://{address}", "set the host and port that clients connect to"
            )
    for name, address in bound.items():
        _check(name, address, protocols, is_advertised=name in advertised_by_name)
        check_bind(key, address, insecure_bind=insecure_bind)
    fixed = [address for address in bound.values() if address.port]
    for address in fixed:
        if fixed.count(address) > 1:
            raise SettingRefused(key, ",".join(listeners), f"{address} occurs twice; give each listener its own port")
    return tuple(
        Listener(name=name, bind=address, advertised=advertised_by_name.get(name)) for name, address in bound.items()
    )


def peer_of(listener: str, advertised: str | None, *, has_key: bool, insecure_bind: bool) -> Listener:
    """Return the listener for other brokers, with the address advertised to them.  Raises SettingRefused."""
    bind = address_of(PEER_LISTENER, listener)
    if not (bind.is_loopback or has_key):
        raise SettingRefused(
            PEER_LISTENER,
            str(bind),
            f"without {CLUSTER_KEY} anyone who reaches this address could act as a broker; set the same long random "
            "text on every broker (in the environment: TIDEMILL_SET_CLUSTER_KEY), or bind to 127.0.0.1",
        )
    danger = "brokers authenticate each other, but the traffic is not encrypted"
    check_bind(PEER_LISTENER, bind, insecure_bind=insecure_bind, danger=danger)
    advertised_address = None if advertised is None else address_of(PEER_ADVERTISED, advertised)
    if advertised_address is not None and (advertised_address.port == 0 or advertised_address.is_wildcard):
        raise SettingRefused(
            PEER_ADVERTISED, str(advertised_address), "set the host and port that other brokers connect to"
        )
    if advertised_address is None and bind.is_wildcard:
        why = f"other brokers cannot connect to {bind.host}; set {PEER_ADVERTISED}=HOST:PORT"
        raise SettingRefused(PEER_LISTENER, str(bind), why)
    return Listener(name=PEER_ENDPOINT, bind=bind, advertised=advertised_address)


def join_of(texts: tuple[str, ...], own: Listener) -> tuple[str, ...]:
    """Return the HOST:PORT of each broker that can admit this broker to its cluster, excluding this broker itself.

    All brokers of a cluster may have the same list.  Raises SettingRefused.
    """
    addresses = [address_of(JOIN, text) for text in texts]
    for address in addresses:
        if address.port == 0 or address.is_wildcard:
            raise SettingRefused(JOIN, str(address), f"set the host and port of another broker's {PEER_LISTENER}")
    others = [address for address in addresses if address not in (own.bind, own.advertised)]
    if addresses and not others:
        why = f"that is this broker's own {PEER_LISTENER}; name another broker, or leave it out to create a cluster"
        raise SettingRefused(JOIN, ",".join(texts), why)
    return tuple(str(address) for address in others)


def _check(name: str, address: Address, protocols: Mapping[str, str], *, is_advertised: bool) -> None:
    shown = f"{name}://{address}"
    protocol = protocols.get(name)
    if protocol is None:
        raise SettingRefused(
            "listeners", shown, f"listener.security.protocol.map does not contain {name}; add {name}:PLAINTEXT"
        )
    if protocol != "PLAINTEXT":
        raise SettingRefused(
            "listeners", shown, f"{name} uses {protocol}, but only PLAINTEXT is implemented; use PLAINTEXT"
        )
    if address.is_wildcard and not is_advertised:
        raise SettingRefused(
            "listeners",
            shown,
            f"clients cannot connect to {address.host}; add {name}://HOST:PORT to advertised.listeners",
        )


def _entries(key: str, texts: tuple[str, ...]) -> dict[str, Address]:
    entries: dict[str, Address] = {}
    for text in texts:
        matched = _ENTRY.fullmatch(text)
        if not matched:
            raise SettingRefused(key, text, "write NAME://HOST:PORT, for example PLAINTEXT://127.0.0.1:9092")
        name = matched[1].upper()  # listener names are case-insensitive, as in Kafka
        if name in entries:
            raise SettingRefused(key, ",".join(texts), f"{name} occurs twice; give each listener its own name")
        entries[name] = address_of(key, matched[2])
    return entries


def _protocols(text: str) -> dict[str, str]:
    protocols = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = pair.partition(":")
        if not (name and colon and protocol):
            raise SettingRefused("listener.security.protocol.map", text, f"{pair!r} is not NAME:PROTOCOL")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols
