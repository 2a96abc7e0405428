"""The interface of a Spark job that the fault tests kill and run again.  `archive_job` implements it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class KillableJob(Protocol):
    """
    A job that can be run again with the same command after any of its processes, or the broker, was killed.

    Each instance has a directory and topics of its own.  `bootstrap` stays the same when the broker restarts.
    """

    name: str

    def __init__(self, bootstrap: str, directory: Path) -> None: ...

    def prepare(self) -> None:
        """Give the job more to do, enough for several steps.  It is called before each run that will be killed."""
        ...

    def arguments(self, master: str) -> Sequence[str]:
        """Return the arguments for the interpreter, which start a run that ends when its work is done."""
        ...

    def moments(self) -> dict[str, int]:
        """
        Return counts that grow while the job runs, such as steps that were begun and steps that are complete.

        They are observed from outside, in files or topics, and continue over all runs.  A run is killed soon after one
        of the counts, chosen at random, has grown by a random number since the start of the run.
        """
        ...

    def check(self) -> str:
        """
        Check the result of all runs, after the last one has succeeded, and return a line about it.

        The check uses clients of other libraries, and no code of the job.  Raise AssertionError if the result is wrong.
        """
        ...
