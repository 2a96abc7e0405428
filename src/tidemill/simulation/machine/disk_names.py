"""The names on a simulated disk: the visible names, the durable names, and the changes between the two.

A change affects one or two names: a rename removes one and adds the other, atomically.  Changes that share a name
depend on each other and form a run.  A power loss keeps the changes of a run up to some point.  Changes in different
runs survive or are lost independently of each other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemill.simulation.machine.disk_content import Content


class Directory:
    __slots__ = ("durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = Directory | Content


@dataclass(slots=True)
class NameChange:
    number: int
    path: str
    # The affected names: directory, name, and what the name refers to after the change.
    effects: tuple[tuple[Directory, str, Node | None], ...]

    def touches(self, directory: Directory) -> bool:
        return any(directory is touched for touched, _, _ in self.effects)


def dependent(changes: Iterable[NameChange]) -> list[list[NameChange]]:
    """Group the changes: those that depend on each other are in one list, in the order in which they were made."""
    run_of: dict[tuple[int, str], list[NameChange]] = {}
    runs: list[list[NameChange]] = []
    for change in changes:
        keys = [(id(directory), name) for directory, name, _ in change.effects]
        met: list[list[NameChange]] = []
        for key in keys:
            run = run_of.get(key)
            if run is not None and not any(run is other for other in met):
                met.append(run)
        if not met:
            met.append([])
            runs.append(met[0])
        run = met[0]
        for other in met[1:]:
            run.extend(other)
            run.sort(key=lambda member: member.number)
            runs = [kept for kept in runs if kept is not other]
            run_of = {key: run if value is other else value for key, value in run_of.items()}
        run.append(change)
        for key in keys:
            run_of[key] = run
    return runs


def made_durable(run: Sequence[NameChange], directory: Directory) -> Sequence[NameChange]:
    """
    Return the changes of a run that a sync of `directory` makes durable: all up to the last change in that directory.
    """
    touching = [place for place, change in enumerate(run) if change.touches(directory)]
    return run[: touching[-1] + 1] if touching else ()
