"""
Counts the faults and effects of a test run over all processes: a fault that never strikes finds no bugs.
"""

from collections import Counter

from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.cluster.cluster_faults import Fault
from tidemill.storage.journal.row import RowKind, kind_name

LOTS = 4  # the number of tests that share the seeds of one broker, or of several: a failure is reported early
EFFECTS = (RowKind.TRUNCATE.name, RowKind.INSTALLED.name, RowKind.TRIMMED.name, "SyncFailed", "PowerLost")


def note(met: Counter[str], run: ClusterRun) -> None:
    met.update({str(fault): count for fault, count in run.faults.struck.items()})
    for machine in run.machines:
        met.update({kind_name(kind): count for kind, count in machine.rows.items()})
        met.update(machine.ends)


def never_happened(met: Counter[str]) -> list[str]:
    """Return the faults and effects that never happened, or an empty list unless all lots of seeds have run."""
    if met["lots"] < 2 * LOTS:
        return []
    return [str(what) for what in (*Fault, *EFFECTS) if not met[str(what)]]
