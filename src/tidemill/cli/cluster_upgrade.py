"""Raises the feature level of a cluster, and shows which levels its brokers support."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidemill.cli.output import Cells
from tidemill.client.broker_http import ask, from_first, send
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER

COLUMNS: Final = ("broker", "status", "supports", "then")
TIMEOUT_S: Final = 15.0  # the brokers wait for a controller for up to 5 s
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The level of a cluster, and the highest levels that its registered brokers support."""

    current: int
    brokers: list[Row]  # `/v1/brokers`

    @property
    def newest(self) -> int:
        """The highest level that any live broker supports: the one to which the cluster is to be raised."""
        told = [row["feature_level"] for row in self.brokers if row["is_live"]]
        return max(self.current, *told) if told else self.current

    def cells(self, target: int) -> list[Cells]:
        """Return a row of cells for each broker, with what it needs before the cluster can be raised to `target`."""
        return [
            (
                row["broker_id"],
                "up" if row["is_live"] else "down",
                row["feature_level"],
                self._needed(row, target),
            )
            for row in self.brokers
        ]

    def _needed(self, row: Row, target: int) -> str:
        if target <= self.current:
            return "ready"
        if not row["is_live"]:
            if not row["is_registered"]:
                return "not registered"
            instead = "remove it" if self.current >= ELASTIC_CLUSTER else "start it on an empty directory"
            return f"bring it back, or {instead}"
        return "ready" if row["feature_level"] >= target else "upgrade Tidemill there"


def read_levels(addresses: Sequence[str]) -> tuple[str, Levels]:
    """
    Return the first of `addresses` that responds, and the levels that it reports.

    Raise NoResponse if none responds, NotReady if those that respond are starting, and Refused.
    """
    address, levels, _ = from_first(addresses, _levels)
    return address, levels


def _levels(address: str) -> Levels:
    cluster, brokers = ask(address, "/v1/cluster"), ask(address, "/v1/brokers")
    return Levels(current=cluster["feature_level"], brokers=brokers["brokers"])


def raise_level(address: str, level: int, *, is_dry: bool) -> Row:
    """Raise the cluster's level, or only check whether that is possible.  Raise NoResponse, NotReady or Refused."""
    return send(address, "/v1/cluster/level", {"level": level, "dry_run": is_dry}, timeout_s=TIMEOUT_S)
