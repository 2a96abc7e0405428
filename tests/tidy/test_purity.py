"""Cores are pure, and only `runtime` accesses the machine."""

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
    A core receives everything it needs from the machine as arguments, so that a seed reproduces a run.
    """
    imported = imported_roots(path)

    assert set() == imported & MACHINE


@pytest.mark.parametrize(
    ("path", "forbidden"),
    [(path, forbidden) for folder, forbidden in LIMITED.items() for path in files(folder)],
    ids=lambda value: named(value) if isinstance(value, Path) else "",
)
def test_only_the_runtime_accesses_the_machine(path: Path, forbidden: set[str]) -> None:
    """
    The upper layers use files, sockets, threads and clocks only through ports, which the simulation implements, too.
    """
    imported = imported_roots(path)

    assert set() == imported & forbidden
