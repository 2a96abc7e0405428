"""What all lots of a run went through together, in whatever processes: a fault that never happens finds nothing."""

from collections import Counter

from tidemill.raft.entry import Kind
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.cluster.cluster_faults import Fault

LOTS = 4  # of seeds, alone and together, so that a failure is told soon
EFFECTS = (Kind.TRUNCATE.name, Kind.INSTALLED.name, Kind.TRIMMED.name, "SyncFailed", "PowerLost")


def note(met: Counter[str], run: ClusterRun) -> None:
    met.update({str(fault): count for fault, count in run.faults.struck.items()})
    for machine in run.machines:
        met.update({Kind(kind).name: count for kind, count in machine.rows.items()})
        met.update(machine.ends)


def never_happened(met: Counter[str]) -> list[str]:
    """Nothing is missing where not all lots were run."""
    if met["lots"] < 2 * LOTS:
        return []
    return [str(what) for what in (*Fault, *EFFECTS) if not met[str(what)]]
