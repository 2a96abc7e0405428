"""A toy state machine on simulated brokers survives truncations, checkpoints, recoveries, installs and elections."""

from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulation.cluster.summing_run import summing_run
from tests.simulation.planted_bugs import assert_fits
from tests.simulation.summing_machine import machines_apply_at_append, machines_keep_what_was_truncated
from tidemill.storage.journal import shard_log
from tidemill.storage.journal.row import RowKind

SEEDS = range(10)
MUTANT_SEEDS = range(60)


def test_a_shards_state_machine_survives_whatever_happens_to_its_broker(explored: list[str]) -> None:
    """
    A shard's state machine survives all faults of its broker.  Rows are dropped early, so that some replicas catch up
    by installs.
    """
    rows: Counter[int] = Counter()
    committed = starts = 0

    with patch.object(shard_log, "NEEDED_ENTRIES_MAX", 4):
        for seed in SEEDS:
            run = summing_run(seed, 3 if seed % 3 else 1, tail_entries=2)
            run.run()
            assert run.compared > 0
            committed += run.committed
            for machine in run.machines:
                rows.update(machine.rows)
                starts += machine.starts

    assert committed > 500
    assert min(rows[kind] for kind in (RowKind.TRUNCATE, RowKind.INSTALLED, RowKind.VOTE)) > 0, rows
    explored.append(f"Shard machines: {len(SEEDS)} seeds, {starts} starts, {committed} values committed")


@pytest.mark.parametrize("planted", [machines_apply_at_append, machines_keep_what_was_truncated])
def test_a_machine_that_is_told_wrongly_is_found(planted: Any, explored: list[str]) -> None:
    """One of the first seeds finds a storage layer that calls its state machines wrongly."""
    for seed in MUTANT_SEEDS:
        with planted():
            try:
                summing_run(seed, 3).run()
            except AssertionError as found:
                assert_fits(found)
                explored.append(f"Shard machines, {planted.__name__}: seed {seed}: {str(found)[:120]}")
                return
    raise AssertionError(f"{planted.__name__}: not found")
