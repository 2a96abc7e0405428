"""Shard state machines on simulated brokers survive truncations, checkpoints, recoveries, installs and elections."""

from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulation.cluster.machine_run import MachineUnderTest, machine_run
from tests.simulation.planted_bugs import find_planted_bug
from tests.simulation.share_rows import observed_share_groups, share_row, shares_of
from tests.simulation.summing_machine import (
    add_command,
    machines_apply_at_append,
    machines_keep_what_was_truncated,
    summed_of,
    summing,
)
from tidemill.storage.journal import shard_log
from tidemill.storage.journal.row import RowKind

SEEDS = range(10)
MUTANT_SEEDS = range(60)
TOY = MachineUnderTest(
    summing,
    lambda random, partition, append_time: add_command(partition, random.randint(1, 1_000), append_time),
    lambda log, number: summed_of(log, number).with_pending,
)
SHARE_GROUPS = MachineUnderTest(observed_share_groups, share_row, shares_of)


@pytest.mark.long
@pytest.mark.parametrize("machine", [TOY, SHARE_GROUPS], ids=["toy", "share groups"])
def test_a_shards_state_machine_survives_whatever_happens_to_its_broker(
    machine: MachineUnderTest, explored: list[str]
) -> None:
    """
    A shard's state machine survives all faults of its broker.  Rows are dropped early, so that some replicas catch up
    by installs.
    """
    rows: Counter[int] = Counter()
    committed = starts = 0

    with patch.object(shard_log, "NEEDED_ENTRIES_MAX", 4):
        for seed in SEEDS:
            run = machine_run(seed, 3 if seed % 3 else 1, machine, tail_entries=2)
            run.run()
            assert run.compared > 0
            committed += run.committed
            for simulated in run.machines:
                rows.update(simulated.rows)
                starts += simulated.starts

    assert committed > 500
    assert min(rows[kind] for kind in (RowKind.TRUNCATE, RowKind.INSTALLED, RowKind.VOTE)) > 0, rows
    explored.append(f"Shard machines: {len(SEEDS)} seeds, {starts} starts, {committed} commands committed")


@pytest.mark.parametrize(
    ("planted", "machine"),
    [
        (machines_apply_at_append, TOY),
        (machines_keep_what_was_truncated, TOY),
        (machines_apply_at_append, SHARE_GROUPS),
    ],
    ids=["applied at append", "truncations ignored", "share groups applied at append"],
)
def test_a_machine_that_is_told_wrongly_is_found(planted: Any, machine: MachineUnderTest, explored: list[str]) -> None:
    """
    The simulation detects, with one of the first seeds, a storage layer that calls its state machines incorrectly.
    """
    name = f"Shard machines, {planted.__name__}"
    errors = (AssertionError, ExceptionGroup)  # the machine under test notices some bugs itself, within a turn
    explored.append(
        find_planted_bug(name, planted, lambda seed: machine_run(seed, 3, machine).run(), MUTANT_SEEDS, errors)
    )
