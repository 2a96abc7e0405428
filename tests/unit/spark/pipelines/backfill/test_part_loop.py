"""
Runs that are killed at any step and then resumed: no record is lost, and records that are written twice are counted.
"""

import json
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.columnar import sink_options
from tidemill.spark.pipelines.backfill.backfill_state import BackfillPlan, BackfillState
from tidemill.spark.pipelines.backfill.options import BackfillOptions
from tidemill.spark.pipelines.backfill.part_loop import PartLoop
from tidemill.spark.pipelines.backfill.part_writer import Written
from tidemill.spark.pipelines.backfill.parts import Part, of_group
from tidemill.spark.pipelines.backfill.preparation import Preparation
from tidemill.spark.pipelines.backfill.time_groups import FileGroup, SourceFile
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.progress import SilentProgress
from tidemill.spark.pipelines.frame.state_directory import StateDirectory

TOPIC = "t"
PART_RECORDS = 3
OPTIONS = BackfillOptions(source="dir", topic=TOPIC, timestamp="time", format="csv")
SINK = sink_options.parse({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": TOPIC})


class Killed(BaseException):
    """Raised to simulate that the process is killed."""


@dataclass
class Machine:
    """The topic, and the number of steps until the process is killed; if it is None, the process is not killed."""

    log: list[int] = field(default_factory=list)  # the event times of the records in the topic
    steps_left: int | None = None
    sorts: int = 1

    def step(self):
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise Killed


@dataclass
class Topic:
    machine: Machine

    def numbered_ends(self):
        return {0: len(self.machine.log)}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


@dataclass
class Reader:
    machine: Machine

    def sort(self, group, directory, part_count):
        """
        Divide the group's records, whose event times are consecutive numbers, into parts.  As in Spark, the parts may
        differ from call to call.
        """
        self.machine.step()
        self.machine.sorts += 1
        size = 1 + self.machine.sorts % PART_RECORDS
        edges = [*range(group.first_us, group.last_us + 1, size), group.last_us + 1]
        return [part(first, end) for first, end in pairwise(edges)]


@dataclass
class Writer:
    machine: Machine

    def write(self, part):
        for time_us in range(part.first_us, part.last_us + 1):
            self.machine.step()
            self.machine.log.append(time_us)
        self.machine.step()
        return Written(records=part.records, bytes=10 * part.records, seconds=0.5)


@dataclass
class Memory:
    """A state directory in memory, because syncing files would be too slow for so many runs."""

    path: Path = Path("/nonexistent")
    texts: dict[str, str] = field(default_factory=dict)

    def read(self, name):
        return json.loads(self.texts[name]) if name in self.texts else None

    def write(self, name, value):
        self.texts[name] = json.dumps(value)


class MortalState(BackfillState):
    """A state whose process may be killed before or after a position or the parts of a group are stored."""

    def __init__(self, directory, machine):
        super().__init__(directory)
        self._machine = machine

    def keep_position(self, position):
        self._machine.step()
        super().keep_position(position)
        self._machine.step()

    def keep_parts(self, group, parts):
        self._machine.step()
        super().keep_parts(group, parts)
        self._machine.step()


def part(first, end):
    count = end - first
    return Part(
        paths=("p",), is_sorted=True, records=count, bytes=10 * count, first_us=first, last_us=end - 1,
        partitions={0: count},
    )  # fmt: skip


def plan(sizes):
    """
    Return a plan with one group of files per number in `sizes`, its number of records; event times are consecutive
    numbers.
    """
    groups, first = [], 0
    for size in sizes:
        file = SourceFile(
            path=f"{first}", size=1, modified_ms=0, records=size, bytes=10 * size, first_us=first,
            last_us=first + size - 1, partitions={0: size},
        )  # fmt: skip
        groups.append(FileGroup(files=(file,), is_sorted_first=size > PART_RECORDS))
        first += size
    return BackfillPlan(
        schema={}, topic_id=None, partition_count=1, part_records=PART_RECORDS, groups=tuple(groups), empty_files=(),
        then=None,
    )  # fmt: skip


def run(directory, machine, made, stop_requested=lambda: False):
    job = Job(
        spark=None, options=OPTIONS, kafka={}, state=directory, progress=SilentProgress(),
        is_continuous=False, stop_requested=stop_requested,
    )  # fmt: skip
    prepared = Preparation(plan=made, is_resumed=False, sink=SINK, reader=Reader(machine), refusals=(), notes=())
    state = MortalState(job.state, machine)
    return PartLoop(
        job=job, prepared=prepared, state=state, writer=Writer(machine), open_topic=lambda *_: Topic(machine)
    ).run()


@settings(deadline=None)  # run times vary, because a thread shows the progress
@given(
    st.lists(st.integers(1, 10), min_size=1, max_size=5),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_nothing_is_lost_or_reordered_whenever_runs_die(sizes, lives):
    """
    Each run is killed after some steps, except the last one.  In the end, the topic contains every record, the first
    copies are in order, only a part that was being written when a run was killed was repeated, and the position
    contains the exact number of duplicates.
    """
    directory, machine, made = Memory(), Machine(), plan(sizes)
    deaths = 0
    for steps in lives:
        machine.steps_left = steps
        try:
            run(directory, machine, made)
        except Killed:
            deaths += 1
    machine.steps_left = None
    position = run(directory, machine, made)

    total = sum(sizes)
    assert list(range(total)) == list(dict.fromkeys(machine.log))
    assert (len(made.groups), 0, total, 10 * total) == (
        position.group, position.part, position.records, position.bytes,
    )  # fmt: skip
    assert len(machine.log) - total == position.extra_records <= deaths * PART_RECORDS
    assert position.repeated_parts <= deaths


def test_a_stop_is_obeyed_between_parts(tmp_path):
    """
    A run that is asked to stop ends after the current part; the next run continues with the next part and repeats
    nothing.
    """
    machine, made = Machine(), plan([2, 7])

    stopped = run(StateDirectory(tmp_path), machine, made, stop_requested=lambda: len(machine.log) >= 4)
    assert (list(range(5)), 2) == (machine.log, stopped.parts)

    done = run(StateDirectory(tmp_path), machine, made)
    assert (list(range(9)), 4, 0, 0) == (machine.log, done.parts, done.repeated_parts, done.extra_records)


def test_what_a_process_of_a_killed_run_writes_between_parts_is_counted(tmp_path):
    """
    Records that a remaining process of a killed run writes are counted, except those after the last part, because no
    run checks the topic after that.
    """
    machine = Machine()

    class Haunted(BackfillState):
        def keep_position(self, position):
            super().keep_position(position)
            if not position.begun_at:
                machine.log.append(0)  # a record of an earlier run

    job = Job(None, OPTIONS, {}, StateDirectory(tmp_path), SilentProgress(), False, lambda: False)
    prepared = Preparation(
        plan=plan([3, 3, 3]), is_resumed=False, sink=SINK, reader=Reader(machine), refusals=(), notes=()
    )
    loop = PartLoop(
        job=job, prepared=prepared, state=Haunted(job.state), writer=Writer(machine),
        open_topic=lambda *_: Topic(machine),
    )  # fmt: skip

    assert (4, 9 + 6) == (loop.run().extra_records, len(machine.log))


def test_a_part_that_has_other_records_than_planned_is_refused(tmp_path):
    """A part with another number of records than planned is refused: a source file was replaced after the planning."""
    machine, made = Machine(), plan([2])
    (group,) = made.groups
    assert 2 == of_group(group).records

    class Short(Writer):
        def write(self, part):
            return Written(records=1, bytes=10, seconds=0.5)

    loop = PartLoop(
        job=Job(None, OPTIONS, {}, StateDirectory(tmp_path), SilentProgress(), False, lambda: False),
        prepared=Preparation(plan=made, is_resumed=False, sink=SINK, reader=Reader(machine), refusals=(), notes=()),
        state=BackfillState(StateDirectory(tmp_path)),
        writer=Short(machine),
        open_topic=lambda *_: Topic(machine),
    )
    with pytest.raises(
        ValueError, match="0 and the other files of its part have 1 records, and had 2 when the run was"
    ):
        loop.run()
