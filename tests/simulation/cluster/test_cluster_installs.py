"""Whole brokers that keep hardly a row: whoever was away is caught up by an install, under all the other faults."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from tidemill.raft.entry import Kind
from tidemill.shard.install import Install
from tidemill.simulation.cluster import ClusterRun
from tidemill.storage import shard_log

SEEDS = (0, 5, 11, 12, 19, 110)  # in the last two a leader sends entries that it knows from a checkpoint


@pytest.fixture
def installed() -> Iterator[list[Kind]]:
    """The rows of installs that were journaled."""
    rows: list[Kind] = []
    journal = Install._journal

    def counted(self: Any, row: Any) -> None:
        rows.append(Kind(row.kind))
        journal(self, row)

    with (
        patch.object(shard_log, "TAIL_ENTRIES", 2),
        patch.object(shard_log, "NEEDED_ENTRIES_MAX", 4),
        patch.object(Install, "_journal", counted),
    ):
        yield rows


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_keeps_its_promises_while_brokers_install(seed: int, installed: list[Kind]) -> None:
    """Nothing acknowledged is lost, and in the end all replicas have the same bytes."""
    run = ClusterRun(seed)

    run.run()

    assert Kind.INSTALLED in installed
