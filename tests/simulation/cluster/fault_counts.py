"""
Counts the faults and their effects in all processes of a test run, because a fault that never occurs finds no bugs.
"""

from collections import Counter

from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.cluster.cluster_faults import Fault
from tidemill.storage.journal.row import RowKind, kind_name

# The seeds of runs with one broker are divided among this many tests, and so are those of runs with several brokers, so
# that a failure is reported early.
LOTS = 4
EFFECTS = (RowKind.TRUNCATE.name, RowKind.INSTALLED.name, RowKind.TRIMMED.name, "SyncFailed", "PowerLost")


def note(met: Counter[str], run: ClusterRun) -> None:
    met.update({str(fault): count for fault, count in run.faults.struck.items()})
    for machine in run.machines:
        met.update({kind_name(kind): count for kind, count in machine.rows.items()})
        met.update(machine.ends)


def never_happened(met: Counter[str]) -> list[str]:
    """Return the faults and effects that never happened, or an empty list if not all tests that share the seeds have
    run.
    """
    if met["lots"] < 2 * LOTS:
        return []
    return [str(what) for what in (*Fault, *EFFECTS) if not met[str(what)]]
