"""
Counts the faults and their effects in all processes of a test run, because a fault that never occurs finds no bugs.
"""

from collections import Counter

from tests.simulation.cluster import share_seeds
from tidemill.model.letter_origin import Cause
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.cluster.cluster_faults import Fault
from tidemill.storage.journal.row import RowKind, kind_name

# The seeds of runs with one broker are divided among this many tests, and so are those of runs with several brokers, so
# that a failure is reported early.
LOTS = 4
EFFECTS = (RowKind.TRUNCATE.name, RowKind.INSTALLED.name, RowKind.TRIMMED.name, "SyncFailed", "PowerLost")
# What must happen in all lots of a kind of runs of share groups.
SHARE_EFFECTS = {
    "lots of share groups": (
        "INVALID_RECORD_STATE",
        "NOT_LEADER_OR_FOLLOWER",
        "locks exhausted",
        "locks renewed",
        "settings changed",
    ),
    "lots of dead letters": (Cause.REJECTED.value, Cause.LIMIT.value),
}


def note(met: Counter[str], run: ClusterRun) -> None:
    met.update({str(fault): count for fault, count in run.faults.struck.items()})
    for machine in run.machines:
        met.update({kind_name(kind): count for kind, count in machine.rows.items()})
        met.update(machine.ends)


def never_happened(met: Counter[str]) -> list[str]:
    """Return the faults and effects that never happened, or an empty list if not all tests that share the seeds have
    run.
    """
    expected: list[str] = []
    if met["lots"] >= 2 * LOTS:
        expected += map(str, (*Fault, *EFFECTS))
    for lots, effects in SHARE_EFFECTS.items():
        if met[lots] >= share_seeds.LOTS:
            expected += effects
    return [what for what in expected if not met[what]]
