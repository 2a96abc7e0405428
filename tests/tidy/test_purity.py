"""The cores are pure, and only the shell touches the machine."""

from pathlib import Path

import pytest

from tests.tidy.tree import files, imported_roots, named

CORES = ("model", "wire", "batches", "raft", "metadata", "coordinator", "peer")
MACHINE = {
    "asyncio", "io", "os", "pathlib", "random", "secrets", "socket", "ssl", "subprocess", "threading", "time",
    "uuid", "logging",
}  # fmt: skip
LIMITED = {"storage": {"asyncio", "socket", "os", "time", "random", "threading", "subprocess"}}
LIMITED |= {"shard": LIMITED["storage"] - {"asyncio"}, "broker": LIMITED["storage"] - {"asyncio"}}
LIMITED |= {"http": MACHINE, "telemetry": MACHINE}


@pytest.mark.parametrize("path", files(*CORES), ids=named)
def test_a_core_never_touches_the_machine(path: Path) -> None:
    """
    What a core needs from the machine is passed in, so that a seed tells the whole story.
    """
    imported = imported_roots(path)

    assert set() == imported & MACHINE


@pytest.mark.parametrize(
    ("path", "forbidden"),
    [(path, forbidden) for folder, forbidden in LIMITED.items() for path in files(folder)],
    ids=lambda value: named(value) if isinstance(value, Path) else "",
)
def test_only_the_runtime_asks_the_machine(path: Path, forbidden: set[str]) -> None:
    """
    Files, sockets, threads and clocks reach the upper floors through ports, which the simulation has twins of.
    """
    imported = imported_roots(path)

    assert set() == imported & forbidden
