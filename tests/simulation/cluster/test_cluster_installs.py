"""
Runs clusters whose brokers keep few entries in memory, so that a broker that was unavailable catches up by an install,
under all faults.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from tidemill.shard.install import Install
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.storage.journal import shard_log
from tidemill.storage.journal.row import RowKind

SEEDS = (0, 6, 12, 13, 18, 19)


@pytest.fixture
def installed() -> Iterator[list[int]]:
    """Make installs frequent, and collect the kinds of the install rows that are journaled."""
    rows: list[int] = []
    journal = Install._journal

    def counted(self: Any, row: Any) -> None:
        rows.append(row.kind)
        journal(self, row)

    with (
        patch.object(shard_log, "NEEDED_ENTRIES_MAX", 4),
        patch.object(Install, "_journal", counted),
    ):
        yield rows


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_keeps_its_promises_while_brokers_install(seed: int, installed: list[int]) -> None:
    """
    While brokers catch up by installs under faults, no acknowledged record is lost, and in the end all replicas are
    byte-identical.
    """
    knobs = ClusterKnobs.draw(Random(seed), 3)
    run = ClusterRun(seed, replace(knobs, options=replace(knobs.options, tail_entries=2)))

    run.run()

    assert RowKind.INSTALLED in installed
