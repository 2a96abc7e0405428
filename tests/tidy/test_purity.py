"""Cores are pure, and only `runtime` accesses the machine."""

import ast
from pathlib import Path

from tests.tidy.tree import SOURCE, files, for_each, imported_names, imported_roots, named, parsed

CORES = ("model", "wire", "batches", "raft", "metadata", "coordinator", "peer", "share", "timer", "rebalance")
MACHINE = {
    "asyncio", "io", "os", "pathlib", "random", "secrets", "socket", "ssl", "subprocess", "threading", "time",
    "uuid", "logging",
}  # fmt: skip
LIMITED = dict.fromkeys(("storage", "console", "telemetry"), MACHINE)
LIMITED |= dict.fromkeys(("shard", "broker", "simulation", "http"), MACHINE - {"asyncio"})
SEEDED = "random.Random"  # a simulation creates each of its generators from its seed
PERMITTED = {
    "src/tidemill/console/shared_read.py": {"threading.Lock"},  # a lock, because pages are built in threads
    "src/tidemill/console/rates.py": {"threading.Lock"},  # a lock, because pages are built in threads
    "src/tidemill/console/record_reader.py": {"threading.Lock"},  # likewise
    "src/tidemill/simulation/machine/disk_controls.py": {"threading"},  # a lock, because a test's threads share a disk
}


@for_each(files(*CORES))
def test_a_core_never_touches_the_machine(path: Path) -> None:
    """
    A core receives everything it needs from the machine as arguments, so that a seed reproduces a run.
    """
    imported = imported_roots(path)

    assert set() == imported & MACHINE


@for_each(files(*LIMITED))
def test_only_the_runtime_accesses_the_machine(path: Path) -> None:
    """
    The upper layers use files, sockets, threads and clocks only through ports, which the simulation implements, too.
    """
    forbidden = LIMITED[path.relative_to(SOURCE).parts[0]]
    imported = {name for name in imported_names(path) if name.split(".")[0] in forbidden}
    if path in files("simulation"):
        imported.discard(SEEDED)

    assert PERMITTED.get(named(path), set()) == imported


@for_each(files("simulation"))
def test_a_simulation_has_no_generator_without_a_seed(path: Path) -> None:
    """
    `Random()` without a seed takes its seed from the machine, so the simulation could not be repeated.
    """
    calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call) and not node.args]

    assert [] == [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Random"]
