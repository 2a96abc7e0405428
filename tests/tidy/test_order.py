"""Simulated code does not depend on the iteration order of sets, so that a seed reproduces a run."""

import ast
from pathlib import Path

from tests.tidy.tree import attribute_names, files, for_each, parsed

SIMULATED = files(
    "model", "wire", "batches", "raft", "metadata", "coordinator", "peer", "rebalance", "storage", "shard", "broker"
)
WALKS_SETS = {"asyncio.TaskGroup", "asyncio.wait", "asyncio.as_completed", "futures.wait", "futures.as_completed"}


def _is_set(node: ast.expr) -> bool:
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    return called or isinstance(node, ast.Set | ast.SetComp)


@for_each(SIMULATED)
def test_nothing_waits_on_an_unordered_set(path: Path) -> None:
    """
    No code uses `TaskGroup`, `asyncio.wait` or `as_completed`, which iterate over sets of tasks in an order that no
    seed determines.
    """
    used = {name for _, name in attribute_names(path)}
    imported = {
        f"asyncio.{alias.name}"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.module == "asyncio"
        for alias in node.names
    }

    assert set() == (used | imported) & WALKS_SETS


@for_each(SIMULATED)
def test_no_loop_iterates_over_a_set_expression(path: Path) -> None:
    """
    No loop iterates over a set expression, since the order of bytes or strings in a set differs between runs; use
    `sorted` or `dict.fromkeys`.
    """
    loops = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.For | ast.comprehension)]
    # A set comprehension may iterate over a set, because its result has no order either.
    harmless = {
        id(generator)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.SetComp)
        for generator in node.generators
    }

    assert [] == [loop.iter.lineno for loop in loops if _is_set(loop.iter) and id(loop) not in harmless]
